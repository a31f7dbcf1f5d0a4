"""The passage corpus: passages in, one memory-mapped Arrow file out (Section 4.1).

A corpus is a folder with ``passages.arrow`` (columns id, title, text) and ``manifest.json``. A
passage's *position* in the file is its number in every index built over it.
"""

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cosearch.core.types import Passage
from cosearch.files.artifacts import write_aside, write_json

_SCHEMA = pa.schema([("id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_BATCH_ROWS = 8192
_ARROW, _MANIFEST = "passages.arrow", "manifest.json"


class PassageLookup(Protocol):
    """Where passages are looked up by id; ``Corpus`` is one."""

    def positions(self, ids: Sequence[str]) -> np.ndarray:
        """Positions of passages by id, -1 for an unknown one."""

    def passage(self, position: int) -> Passage:
        """The passage at a position."""


class Corpus:
    """A corpus folder, memory-mapped: opening it reads no passage. Raises ValueError when the
    folder holds no finished corpus or its file and manifest disagree."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self.manifest: dict[str, Any] = json.loads((self.folder / _MANIFEST).read_text("utf-8"))
            source = pa.memory_map(str(self.folder / _ARROW))
            self._table = pa.ipc.open_file(source).read_all()
        except (OSError, json.JSONDecodeError, pa.ArrowInvalid) as error:
            raise ValueError(f"{self.folder}: no finished corpus ({error})") from error
        if len(self._table) != self.manifest["rows"]:
            raise ValueError(
                f"{self.folder}: {_ARROW} has {len(self._table)} rows, "
                f"{_MANIFEST} says {self.manifest['rows']}"
            )

    def __len__(self) -> int:
        return len(self._table)

    @property
    def sha256(self) -> str:
        """Hash of the rows in order, as recorded at writing; ``content_sha256`` recomputes it."""
        value: str = self.manifest["sha256"]
        return value

    def passage(self, position: int) -> Passage:
        """The passage at ``position`` (0-based)."""
        if not 0 <= position < len(self):
            raise IndexError(f"{self.folder}: no passage at {position}, {len(self)} rows")
        return Passage(*(column[position].as_py() for column in self._table.columns))

    def passages(self, start: int, stop: int) -> list[Passage]:
        """Passages ``start:stop`` in order; only this slice becomes objects."""
        columns = self._table.slice(start, max(0, stop - start)).to_pydict()
        return [Passage(*row) for row in zip(*columns.values(), strict=True)]

    def positions(self, ids: Sequence[str]) -> np.ndarray:
        """Positions of passages by id, -1 where the corpus has no such id; int64."""
        found = pc.index_in(pa.array(ids, pa.string()), value_set=self._table["id"])
        return np.asarray(pc.fill_null(found, -1), np.int64)

    def slices(self, size: int) -> Iterator[list[Passage]]:
        """The whole corpus in consecutive lists of at most ``size`` passages."""
        for start in range(0, len(self), size):
            yield self.passages(start, start + size)

    def content_sha256(self) -> str:
        """Hash of the rows as they are now on disk."""
        digest = hashlib.sha256()
        for batch in self._table.to_batches():
            _update(digest, batch)
        return digest.hexdigest()


def write_corpus(passages: Iterable[Passage], folder: str | Path, *, source: str) -> dict[str, Any]:
    """Stream ``passages`` into a corpus folder and return its manifest.

    Passages with the title and text of an earlier one are dropped and counted. A blank id becomes
    the passage's position. Raises ValueError for a passage without text, a repeated id, or blank
    beside given ids. The manifest is written last: a folder that has one is complete.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MANIFEST).unlink(missing_ok=True)
    spool = folder / "spool.arrow"
    ledger = _spool(passages, spool, source)
    if fault := ledger.fault():
        raise ValueError(f"{source}: passage {fault[0] + 1} has {fault[1]}")
    keep = ledger.kept()
    digest = hashlib.sha256()
    write_aside(folder / _ARROW, lambda aside: _copy_kept(spool, aside, keep, digest))
    spool.unlink()
    rows = int(keep.sum())
    manifest = {
        "source": source,
        "rows": rows,
        "duplicates": len(keep) - rows,
        "sha256": digest.hexdigest(),
    }
    write_json(folder / _MANIFEST, manifest)
    return manifest


class Ledger:
    """What tells the passages of a stream apart: 64-bit digests of ids (0: blank) and of bodies.

    Eight bytes a row instead of a set of strings: 21 million passages need 0.3 GB here.
    """

    def __init__(self) -> None:
        self._ids, self._bodies = array("q"), array("q")

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, passage: Passage) -> None:
        """Note the next passage."""
        self._ids.append(_digest(passage.id) if passage.id else 0)
        self._bodies.append(_digest(passage.title, passage.text))

    def kept(self) -> np.ndarray:
        """Which passages stay: the first one of each title and text; bool."""
        return _first_occurrences(np.frombuffer(self._bodies, np.int64))

    def fault(self) -> tuple[int, str] | None:
        """Position and fault of a kept passage whose id is missing or used before, or None."""
        positions = np.flatnonzero(self.kept())
        ids = np.frombuffer(self._ids, np.int64)[positions]
        blank = ids == 0
        if blank.all():
            return None
        if blank.any():
            words = f"no id, as {blank.sum()} of {len(ids)} passages; give all of them one, or none"
            return int(positions[np.flatnonzero(blank)[0]]), words
        repeated = positions[~_first_occurrences(ids)]
        return (int(repeated[0]), "an id that is used before") if len(repeated) else None


def _spool(passages: Iterable[Passage], spool: Path, source: str) -> Ledger:
    """Write all passages to ``spool``."""
    ledger, stream = Ledger(), iter(passages)
    with pa.ipc.new_file(str(spool), _SCHEMA) as writer:
        while rows := list(islice(stream, _BATCH_ROWS)):
            for row in rows:
                ledger.add(row)
                if not row.text.strip():
                    raise ValueError(f"{source}: passage {len(ledger)} has no text")
            columns = ([getattr(row, field) for row in rows] for field in _SCHEMA.names)
            writer.write_batch(
                pa.record_batch([pa.array(c, pa.string()) for c in columns], _SCHEMA)
            )
    if not len(ledger):
        raise ValueError(f"{source}: no passages")
    return ledger


def _first_occurrences(digests: np.ndarray) -> np.ndarray:
    keep = np.zeros(len(digests), bool)
    keep[np.unique(digests, return_index=True)[1]] = True
    return keep


def _copy_kept(spool: Path, target: Path, keep: np.ndarray, digest: "hashlib._Hash") -> None:
    """Copy the kept rows of ``spool`` to ``target``, adding them to ``digest``."""
    start = written = 0
    with (
        pa.memory_map(str(spool)) as source,
        pa.ipc.open_file(source) as reader,
        pa.ipc.new_file(str(target), _SCHEMA) as writer,
    ):
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            kept = batch.filter(pa.array(keep[start : start + len(batch)]))
            start += len(batch)
            kept = _with_ids(kept, written)
            written += len(kept)
            writer.write_batch(kept)
            _update(digest, kept)


def _with_ids(batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
    ids = [given or str(start + row) for row, given in enumerate(batch["id"].to_pylist())]
    return pa.record_batch([pa.array(ids, pa.string()), batch["title"], batch["text"]], _SCHEMA)


def _update(digest: "hashlib._Hash", batch: pa.RecordBatch) -> None:
    for row in zip(*batch.to_pydict().values(), strict=True):
        # Unit and record separators: moving text from one field to the next changes the hash.
        digest.update(("\x1f".join(row) + "\x1e").encode())


def _digest(*parts: str) -> int:
    content = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(content, "little", signed=True)
