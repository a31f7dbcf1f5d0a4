"""The console that the commands print tables on."""

import sys

from rich.console import Console

PIPE_WIDTH = 160
"""Columns of a table that is printed into a file or a pipe."""


def open_console() -> Console:
    """A console on standard output: as wide as the terminal, or ``PIPE_WIDTH`` elsewhere."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
