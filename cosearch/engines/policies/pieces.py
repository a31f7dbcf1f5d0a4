"""Pieces of a text encoded apart, so that together they are the ids of the whole text.

A tokenizer of SentencePiece's kind puts a blank before every text that it is given. A piece from
the middle of a text must not get one, so such a tokenizer has a twin that puts none there.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from tokenizers import Tokenizer


class PieceEncoder:
    """Ids of single pieces. ``controls`` finds the tokens before which a tokenizer cuts a text."""

    def __init__(self, tokenizer: Any, controls: re.Pattern[str]) -> None:
        self._tokenizer = tokenizer
        self._controls = controls
        backend = getattr(tokenizer, "backend_tokenizer", None)
        twin, again = _without_blank(backend) if backend else (None, False)
        self._twin: Any = twin
        self.again = again
        """Whether a blank goes before the text behind each control token, too."""

    @property
    def blanks(self) -> bool:
        """Whether a piece's ids depend on what stands before it."""
        return self._twin is not None

    def encode(self, piece: str, *, opens: bool) -> list[int]:
        """Ids of ``piece``, which ``opens`` a text or continues one."""
        if self._twin is None or opens:
            return self._whole(piece)
        found = self._controls.search(piece)
        cut = found.start() if found else len(piece)
        head: list[int] = self._twin.encode(piece[:cut], add_special_tokens=False).ids
        return head + (self._whole(piece[cut:]) if cut < len(piece) else [])

    def _whole(self, piece: str) -> list[int]:
        ids: list[int] = self._tokenizer(piece, add_special_tokens=False).input_ids
        return ids


def _without_blank(backend: Any) -> tuple[Any, bool]:
    """A copy of a tokenizer that puts no blank before a text, or None where it puts none anyway;
    and whether the tokenizer does so behind control tokens too."""
    told = json.loads(backend.to_str())
    schemes: list[str] = []
    for part in ("normalizer", "pre_tokenizer"):
        told[part] = _changed(told[part], schemes.append)
    if not schemes:
        return None, False
    return Tokenizer.from_str(json.dumps(told)), "first" not in schemes


def _changed(step: Any, note: Callable[[str], None]) -> Any:
    """A step of a tokenizer without its blank; ``note`` hears where the blank was put."""
    if not step:
        return step
    for inside in ("normalizers", "pretokenizers"):
        if inside in step:
            steps = [_changed(one, note) for one in step[inside]]
            return step | {inside: [one for one in steps if one is not None]}
    if step["type"] == "Prepend":
        note("always")
        return None
    if step["type"] == "Metaspace" and step["prepend_scheme"] != "never":
        note(step["prepend_scheme"])
        return step | {"prepend_scheme": "never"}
    if step["type"] == "ByteLevel" and step["add_prefix_space"]:
        note("always")
        return step | {"add_prefix_space": False}
    return step
