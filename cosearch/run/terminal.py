"""A terminal that does not take every sign, such as one whose locale is C or Latin-1."""

import codecs
import io
import os
import sys

ALIKE = dict(zip("–—−→±…·●•", ["-", "-", "-", "->", "+-", "...", "|", "*", "*"], strict=True))
"""Signs of tables and pages, and how ASCII writes them."""
HANDLER = "cosearch.alike"


def _write_alike(error: UnicodeError) -> tuple[str, int]:
    """Put what is ``ALIKE`` in place of signs that cannot be encoded, or the number of the sign as
    Python writes it, such as ``\\xe9``. Raises other errors."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(ALIKE.get(sign) or ascii(sign)[1:-1] for sign in signs), error.end


def as_typed(word: str) -> str:
    """A word of the command line as it was typed in UTF-8. Under another locale Python gives it
    with surrogates, which no tokenizer takes."""
    return os.fsencode(word).decode("utf-8", "replace") if not word.isprintable() else word


def write_plainly() -> None:
    """Let this program write every text to its terminal, whatever signs that takes."""
    codecs.register_error(HANDLER, _write_alike)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=HANDLER)
