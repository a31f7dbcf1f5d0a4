"""The console that the commands print on."""

import sys
import unicodedata

from rich.console import Console
from rich.text import Text

PIPE_WIDTH = 160
"""Columns of a table that is printed into a file or a pipe."""


def open_console() -> Console:
    """A console on standard output: as wide as the terminal, or ``PIPE_WIDTH`` elsewhere."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def printable(text: str) -> Text:
    """Untrusted text for a terminal: no markup of rich's, and a symbol in place of every control
    character, which could move the cursor or change colours."""
    return Text("".join(map(_shown, text)))


def _shown(sign: str) -> str:
    if sign in "\n\t" or not unicodedata.category(sign).startswith("C"):
        return sign
    return chr(0x2400 + ord(sign)) if ord(sign) < ord(" ") else "\N{REPLACEMENT CHARACTER}"
