"""Reads JSON, JSON lines, Parquet, TSV and CSV files and folders of ``datasets`` as numbered rows.

This module does not interpret the rows. Whatever cannot be read raises a ``ValueError`` of one line
that names the file and the row (counted from 1, without the header of a table).
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cosearch.data.containers import PARQUET, decode_line, head_of, read_lines, read_text

Record = Mapping[str, Any]
Numbered = Iterator[tuple[int, Record]]

_DPR_COLUMNS = ("question", "answers")
_HEADER_NAMES = {"question", "text", "contents"}
"""A table whose first row has one of these names has a header."""
_DELIMITERS = ("\t", ",", ";")
_PACKED_SUFFIXES = {".gz", ".zst", ".zstd"}
_TABLES = (".tsv", ".csv", ".txt")
_SUFFIXES = (".jsonl", ".ndjson", ".json", ".parquet", *_TABLES)
_BATCH_ROWS = 4096


def read_records(path: Path, *, stray_bytes: bool = False) -> Numbered:
    """Rows of ``path`` with their numbers. Streams them if the container allows it.

    The suffix gives the container: jsonl or json (one row a line, or one document with a list of
    rows, also under ``Data``), parquet, tsv, csv or txt. The content says whether it is packed. A
    table without a header has DPR's columns ``question<TAB>answers``. A folder is one that
    ``datasets.load_from_disk`` opens. ``stray_bytes`` turns bytes of a table that are not UTF-8
    into U+FFFD, which is visible.
    """
    if path.is_dir():
        yield from _folder(path)
        return
    head = head_of(path)
    suffixes = [suffix for suffix in path.suffixes if suffix.lower() not in _PACKED_SUFFIXES]
    suffix = suffixes[-1].lower() if suffixes else ""
    if suffix not in _SUFFIXES:
        raise ValueError(f"{path}: suffix {suffix!r} is none of {', '.join(_SUFFIXES)}")
    if head.startswith(PARQUET) or suffix == ".parquet":
        yield from _parquet(path)
    elif suffix in _TABLES:
        yield from _table(path, stray_bytes)
    else:
        yield from _json(path)


def _json(path: Path) -> Numbered:
    """One row a line, or one document. The first line decides: a document begins with a list of
    objects, has its rows under ``Data``, or goes on in the next line."""
    first = next((line for _, line in read_lines(path) if line.strip()), None)
    if first is None:
        return
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        whole = path.suffix.lower() == ".json" or first.lstrip().startswith(b"[")
    else:
        rows = value.get("Data") if isinstance(value, dict) else value
        whole = isinstance(rows, list) and (not rows or isinstance(rows[0], dict))
    yield from _document(path) if whole else _json_lines(path)


def _json_lines(path: Path) -> Numbered:
    for number, line in read_lines(path):
        if line.strip():
            record = _loads(path, decode_line(path, number, line), number)
            yield number, _object(path, number, record)


def _loads(path: Path, text: str, number: int | None = None) -> Any:
    place = path if number is None else f"{path}: row {number}"
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(f"{place}: nested too deeply to be read") from error
    except ValueError as error:
        raise ValueError(f"{place}: not JSON, truncated? ({error})") from error


def _document(path: Path) -> Numbered:
    content = _loads(path, read_text(path))
    rows = content.get("Data") if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise ValueError(f"{path}: neither a list of rows nor an object with a list under 'Data'")
    for number, record in enumerate(rows, start=1):
        yield number, _object(path, number, record)


def _object(path: Path, number: int, record: object) -> Record:
    if not isinstance(record, dict):
        raise ValueError(f"{path}: row {number}: {type(record).__name__}, not an object")
    return record


def _parquet(path: Path) -> Numbered:
    try:
        with pq.ParquetFile(path) as file:
            yield from _batches(path, file.iter_batches(_BATCH_ROWS))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path}: damaged or truncated Parquet file ({error})") from error


def _batches(path: Path, batches: Iterable[pa.RecordBatch | pa.Table]) -> Numbered:
    start = 1
    for batch in batches:
        try:
            rows = batch.to_pylist()
        except UnicodeDecodeError as error:
            number = start + _broken_row(batch)
            raise ValueError(f"{path}: row {number}: not UTF-8 ({error.reason})") from error
        yield from enumerate(rows, start)
        start += len(rows)


def _broken_row(batch: pa.RecordBatch | pa.Table) -> int:
    """Index of the first row with bytes that are not UTF-8."""
    for index in range(len(batch)):
        try:
            batch.slice(index, 1).to_pylist()
        except UnicodeDecodeError:
            return index
    raise AssertionError("every row can be read")


def _folder(path: Path) -> Numbered:
    """Rows of a folder. Those of a folder with splits name their split."""
    from datasets import DatasetDict, load_from_disk

    try:
        found = load_from_disk(str(path))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        words = f"no folder that datasets.load_from_disk opens ({' '.join(str(error).split())})"
        raise ValueError(f"{path}: {words}") from None
    parts = found.items() if isinstance(found, DatasetDict) else [(None, found)]
    numbers = 0
    for split, part in parts:
        named = {} if split is None else {"split": split}
        for number, record in _batches(path, part.with_format("arrow").iter(_BATCH_ROWS)):
            yield numbers + number, {**named, **record}
        numbers += len(part)


def _table(path: Path, stray_bytes: bool) -> Numbered:
    lines = _text_lines(path, stray_bytes)
    first = next(lines, None)
    if first is None:
        return
    delimiter, header = _header(path, first)
    if header:
        yield from _cells(path, csv.reader(lines, delimiter=delimiter, strict=True), header)
        return
    rows = csv.reader(chain([first], lines), delimiter="\t", strict=True)
    for number, record in _cells(path, rows, _DPR_COLUMNS):
        if not record["answers"].startswith(("[", "{")):
            words = "a table has a header with 'question', or DPR's lists as its second column"
            raise ValueError(f"{path}: row {number}: not a list literal; {words}")
        yield number, record


def _text_lines(path: Path, stray_bytes: bool) -> Iterator[str]:
    for number, line in read_lines(path):
        yield line.decode(errors="replace") if stray_bytes else decode_line(path, number, line)


def _header(path: Path, line: str) -> tuple[str, list[str]]:
    """Delimiter and names of the columns. No names: the table has no header."""
    for delimiter in _DELIMITERS:
        try:
            names = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
        except csv.Error as error:
            raise ValueError(f"{path}: row 1: {error}") from error
        if _HEADER_NAMES.intersection(name.lower() for name in names):
            twice = [name for name in names if name and names.count(name) > 1]
            if twice:
                raise ValueError(f"{path}: the header has the column {twice[0]!r} twice")
            return delimiter, names
    return "\t", []


def _cells(path: Path, rows: Iterator[list[str]], header: Sequence[str]) -> Numbered:
    number = 0
    try:
        for number, row in enumerate(rows, start=1):
            if not row:
                continue
            if len(row) != len(header):
                raise ValueError(f"{path}: row {number}: {len(row)} cells, not {len(header)}")
            yield number, {name: cell for name, cell in zip(header, row, strict=True) if name}
    except csv.Error as error:
        raise ValueError(f"{path}: row {number + 1}: {error}") from error
