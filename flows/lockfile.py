"""Keeps the entries of dvc.lock in the order of a plain ``dvc repro``.

DVC adds an entry when a stage ends. If stages run side by side, the order of the entries would
depend on timing. A plain ``dvc repro`` keeps old entries in place and adds new ones in the order of
the graph. This module restores that order.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_ENTRY = re.compile(r"^  (?=\S)", re.MULTILINE)
_HEAD = "stages:\n"


@contextmanager
def ordered_locks(order: Sequence[str]) -> Iterator[None]:
    """Sort the locks after the ``with`` block, in which stages may end in any order.

    Old entries keep their places. New entries follow in ``order``, the order of the graph.
    """
    locks = sorted({lock_path(name) for name in order})
    before = {path: entry_names(_read(path)) for path in locks}
    try:
        yield
    finally:
        names = [name.rpartition("dvc.yaml:")[2] for name in order]
        for path, old in before.items():
            text = _read(path)
            ordered = order_entries(text, [*old, *(name for name in names if name not in old)])
            if ordered != text:
                write_lock(path, ordered)


def lock_path(stage: str) -> Path:
    """Path of the dvc.lock that holds a stage. It lies beside the dvc.yaml of the stage."""
    return Path(stage.rpartition("dvc.yaml:")[0], "dvc.lock")


def entry_names(text: str) -> list[str]:
    """Names of the stages in a lock, in order."""
    return [_name(entry) for entry in _split(text)[1]]


def order_entries(text: str, order: Sequence[str]) -> str:
    """The text of the lock with its entries in ``order``. No byte inside an entry changes."""
    head, entries, tail = _split(text)
    place = {name: position for position, name in enumerate(order)}
    entries.sort(key=lambda entry: place.get(_name(entry), len(place)))
    return head + "".join(entries) + tail


def write_lock(path: Path, text: str) -> None:
    """Replace the lock in one step, so that no reader meets a part of it."""
    aside = path.with_name(f".{path.name}.new")
    aside.write_text(text, "utf-8")
    os.replace(aside, path)


def _split(text: str) -> tuple[str, list[str], str]:
    """The text before the entries, the entries, and the text after them."""
    start = text.find(_HEAD)
    if start < 0 or (start > 0 and text[start - 1] != "\n"):
        return text, [], ""
    start += len(_HEAD)
    after = re.search(r"^\S", text[start:], re.MULTILINE)
    end = start + after.start() if after else len(text)
    pieces = _ENTRY.split(text[start:end])
    return text[:start] + pieces[0], [f"  {piece}" for piece in pieces[1:]], text[end:]


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def _name(entry: str) -> str:
    return entry.split(":\n", 1)[0].strip().strip("'\"")
