"""Checks the two files of a user completely, before a profile is made from them.

All faults of rows are collected, and the first ones are named. Whatever passes here is taken by the
stage ``data`` too, because both read with the same reader.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress, islice
from pathlib import Path
from typing import TypeVar

from cosearch.data.corpus import Ledger
from cosearch.data.formats import SourceRow
from cosearch.data.passages import open_style, passages_of, read_passages
from cosearch.data.questions import RowReader, order_key, question_key
from cosearch.data.records import Numbered, Record, read_records
from cosearch.data.world_questions import SPLITS
from cosearch.files.artifacts import read_json, write_json
from cosearch.files.hashes import hash_path

SHOWN_FAULTS = 5
SHARES = (0.6, 0.8, 1.0)
"""Cumulative shares of train, dev and test in hash order, for rows that name no split."""
FILES = "files.json"
"""File beside the profile.yaml of such a profile, with the hashes of what was checked."""
Parsed = TypeVar("Parsed")


def record_files(folder: Path, files: Iterable[str], root: Path) -> None:
    """Write the hashes of the checked ``files``, relative to ``root``, beside the profile.yaml in
    ``folder``."""
    write_json(folder / FILES, {name: hash_path(root / name) for name in files})


def check_files(folder: Path) -> None:
    """Hold the files against their record beside the profile.yaml in ``folder``, if there is one.
    Raises ValueError that names the first file that is another one now."""
    record = folder / FILES
    for name, sum in (read_json(record) if record.is_file() else {}).items():
        if not Path(name).exists() or hash_path(Path(name)) != sum:
            raise ValueError(
                f"{name}: missing, or another file than `init` has checked; put that one back, or"
                " run `python -m cosearch init` again under another --name"
            )


def check_questions(path: Path) -> list[tuple[str, SourceRow]]:
    """Read questions of any known format. Returns (id, row) pairs.

    Raises ValueError that names the first faulty rows, and for an equal question in another split.
    """
    reader = RowReader()
    asked: dict[str, tuple[int, str | None]] = {}

    def parse(number: int, record: Record) -> tuple[str, SourceRow]:
        row = reader.parse(number, record)
        start, split = asked.setdefault(question_key(row.text), (number, row.split))
        if split != row.split:
            raise ValueError(f"the question of row {start} again, in {row.split} and not {split}")
        return row.id if row.id is not None else str(number), row

    return _collect(path, read_records(path), parse)


def check_corpus(path: Path) -> list[int]:
    """Bytes of title and text of each passage that the corpus will have.

    Raises ValueError that names the first faulty rows, or the first passage with a faulty id.
    """
    ledger, sizes = Ledger(), array("q")
    style, records = open_style(read_records(path))

    def parse(number: int, record: Record) -> None:
        for passage in passages_of(record, style):
            ledger.add(passage)
            sizes.append(len(f"{passage.title}{passage.text}".encode()))

    _collect(path, records, parse)
    if fault := ledger.fault():
        passage = next(islice(read_passages(path), fault[0], None))
        raise ValueError(
            f"{path}: passage {fault[0] + 1} ({passage.id!r}, {passage.title!r}) has {fault[1]}"
        )
    return list(compress(sizes, ledger.kept()))


def assign_splits(rows: Sequence[tuple[str, SourceRow]]) -> list[str]:
    """The split of each row: the one that it names, else one by hash order.

    Hash order depends on ids only, so a row keeps its split if the rows change places. Equal
    questions get one split, at the place of the first of them.
    """
    named = [row.split for _, row in rows if row.split is not None]
    if named:
        return named
    sizes: Counter[str] = Counter()
    for _, row in sorted(rows, key=lambda pair: order_key("init", pair[0])):
        sizes[question_key(row.text)] += 1
    chosen: dict[str, str] = {}
    before = 0
    for key, size in sizes.items():
        share = (before + 1) / len(rows)
        chosen[key] = next(s for s, upto in zip(SPLITS, SHARES, strict=True) if share <= upto)
        before += size
    return [chosen[question_key(row.text)] for _, row in rows]


def _collect(path: Path, records: Numbered, parse: Callable[[int, Record], Parsed]) -> list[Parsed]:
    """Parse all rows. A row that cannot even be read ends the reading."""
    good: list[Parsed] = []
    faults: list[str] = []
    try:
        for number, record in records:
            try:
                good.append(parse(number, record))
            except ValueError as error:
                faults.append(f"row {number}: {error}")
    except ValueError as error:
        if not faults:
            raise
        faults.append(str(error).removeprefix(f"{path}: "))
    if faults:
        shown = "; ".join(faults[:SHOWN_FAULTS])
        raise ValueError(f"{path}: {len(faults)} of {len(good) + len(faults)} rows: {shown}")
    if not good:
        raise ValueError(f"{path}: no rows")
    return good
