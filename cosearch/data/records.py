"""Reads JSON, JSON lines, Parquet, TSV and CSV files as numbered records.

This module does not interpret the records. Whatever cannot be read raises a ``ValueError`` that
names the file and, if possible, the row (counted from 1).
"""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

Record = Mapping[str, Any]
Numbered = Iterator[tuple[int, Record]]

_DPR_COLUMNS = ("question", "answers")
_PARQUET_BATCH = 4096
_UNREADABLE = (json.JSONDecodeError, RecursionError)
"""Errors for broken JSON and for JSON that is nested too deeply for the parser."""


def read_records(path: Path) -> Numbered:
    """Rows of ``path`` with their numbers. Streams them if the container allows it.

    The suffix gives the container: jsonl, json (a list, or an object with the list under ``Data``),
    parquet, tsv, csv or txt. All but parquet may end in ``.gz``. A table without a header row has
    DPR's columns ``question<TAB>answers``.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    suffix = path.name.removesuffix(".gz").rpartition(".")[2]
    if suffix not in _READERS:
        raise ValueError(f"{path}: suffix .{suffix} is none of {', '.join(sorted(_READERS))}")
    try:
        yield from _READERS[suffix](path)
    except (EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: damaged or truncated gzip file ({error})") from error
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: damaged or truncated Parquet file ({error})") from error


def read_json_lines(path: Path) -> Numbered:
    """Rows of a JSON-lines file with any suffix (2WikiMultihopQA's aliases end in .json)."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    with _open(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except _UNREADABLE as error:
                raise ValueError(f"{path}: row {number}: not JSON, truncated? ({error})") from error
            yield number, _object(path, number, record)


def _json(path: Path) -> Numbered:
    with _open(path) as file:
        try:
            content = json.load(file)
        except _UNREADABLE as error:
            raise ValueError(f"{path}: not JSON, truncated? ({error})") from error
    rows = content.get("Data") if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise ValueError(f"{path}: neither a list of rows nor an object with a list under 'Data'")
    for number, record in enumerate(rows, start=1):
        yield number, _object(path, number, record)


def _parquet(path: Path) -> Numbered:
    with pq.ParquetFile(path) as file:
        number = 0
        for batch in file.iter_batches(_PARQUET_BATCH):
            for record in batch.to_pylist():
                number += 1
                yield number, record


def _table(path: Path) -> Numbered:
    with _open(path, newline="") as file:
        first = file.readline()
        delimiter = "\t" if "\t" in first else ","
        header = _header(path, first, delimiter)
        if _is_header(header):
            yield from _cells(path, csv.reader(file, delimiter=delimiter, strict=True), header)
            return
    with _open(path, newline="") as file:
        yield from _cells(path, csv.reader(file, delimiter="\t", strict=True), _DPR_COLUMNS)


def _header(path: Path, line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as error:
        raise ValueError(f"{path}: row 1: {error}") from error


def _is_header(cells: list[str]) -> bool:
    names = {cell.strip().lower() for cell in cells}
    return bool(names & {"question", "text"}) and bool(names & {"answer", "possible_answers", "id"})


def _cells(path: Path, rows: Iterator[list[str]], header: list[str] | tuple[str, ...]) -> Numbered:
    number = 0
    try:
        for number, row in enumerate(rows, start=1):
            if len(row) != len(header):
                raise ValueError(f"{path}: row {number}: {len(row)} cells, not {len(header)}")
            yield number, {name: cell for name, cell in zip(header, row, strict=True) if name}
    except csv.Error as error:
        raise ValueError(f"{path}: row {number + 1}: {error}") from error


def _object(path: Path, number: int, record: object) -> Record:
    if not isinstance(record, dict):
        raise ValueError(f"{path}: row {number}: {type(record).__name__}, not an object")
    return record


def _open(path: Path, newline: str | None = None) -> TextIO:
    # Bamboogle's sheet has invalid bytes in two questions. They become U+FFFD, which is visible.
    errors = "replace" if path.suffix == ".csv" else "strict"
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8", errors=errors, newline=newline)
    return path.open(encoding="utf-8", errors=errors, newline=newline)


_READERS: dict[str, Callable[[Path], Numbered]] = {
    "jsonl": read_json_lines,
    "json": _json,
    "parquet": _parquet,
    "tsv": _table,
    "csv": _table,
    "txt": _table,
}
