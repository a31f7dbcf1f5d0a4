"""Files are told by their content: packing, byte order mark, encoding, and where a line ends."""

import ast
import bz2
import csv
import gzip
import io
import json
import lzma
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given, settings
from hypothesis import strategies as st

from cosearch.data.records import read_records
from cosearch.files.artifacts import write_jsonl
from tests.test_architecture import modules

TEXT = st.text(max_size=30)
ROWS = st.lists(st.fixed_dictionaries({"question": TEXT, "answer": st.lists(TEXT)}), min_size=1)
few = settings(max_examples=40, deadline=None)
LINE = b'{"question": "who", "answer": "x"}\n'


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def read(name: str, data: bytes) -> list[Any]:
    """Rows of a file with this name and content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        return [record for _, record in read_records(path)]


def fault(name: str, data: bytes) -> str:
    """The error that a file gives, without the folder."""
    with pytest.raises(ValueError, match=name) as caught:
        read(name, data)
    message = str(caught.value)
    assert "\n" not in message
    return message.rpartition(f"/{name}: ")[2]


@few
@given(ROWS)
def test_what_is_written_as_json_lines_is_read_back(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        write_jsonl(path, rows)
        assert [record for _, record in read_records(path)] == rows
        data = path.read_bytes()
    for packed in (gzip.compress(data), zstd(data), b"\xef\xbb\xbf" + data):
        assert read("rows.jsonl", packed) == rows


@few
@given(ROWS, st.sampled_from(["rows.json", "rows.jsonl"]), st.sampled_from([None, 1]))
def test_a_document_is_read_like_its_lines(
    rows: list[dict[str, Any]], name: str, indent: int | None
) -> None:
    assert read(name, json.dumps(rows, indent=indent).encode()) == rows
    assert read("rows.json", json.dumps({"Data": rows}, indent=indent).encode()) == rows
    assert read("rows.json", "\n".join(map(json.dumps, rows)).encode()) == rows


@few
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1), st.sampled_from("\t,;"))
def test_a_table_is_read_as_it_was_written(rows: list[tuple[str, str]], delimiter: str) -> None:
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=delimiter).writerows([("question", "answer"), *rows])
    data = written.getvalue().encode("utf-8-sig")
    assert [tuple(record.values()) for record in read("rows.csv", data)] == rows


def test_blank_lines_of_a_table_are_passed_over() -> None:
    assert len(read("rows.csv", b"question,answer\n\nwho,x\n\n")) == 1


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("q.jsonl", LINE * 2 + "r\u00f6".encode("latin-1"), "line 3: not UTF-8 (byte 0xf6)"),
        ("q.csv", "question,answer\nwho,R\u00f6se\n".encode("cp1252"), "line 2: not UTF-8"),
        ("q.json", b'[\n{"question": "\xf6"}]', "line 2: not UTF-8 (byte 0xf6)"),
        ("q.jsonl", LINE.decode().encode("utf-16"), "UTF-16; save it as UTF-8"),
        ("q.jsonl", gzip.compress(LINE * 9)[:-12], "damaged or truncated gzip file after line"),
        ("q.jsonl", gzip.compress(LINE)[:14] + b"\xff" * 9, "damaged or truncated gzip file"),
        ("q.json", gzip.compress(b"[1]")[:-9], "damaged or truncated gzip file after line 0"),
        ("q.jsonl", zstd(LINE * 9)[:-4], "damaged or truncated Zstandard file"),
        ("q.jsonl", gzip.compress(gzip.compress(LINE)), "packed twice; unpack it once"),
        ("q.jsonl", bz2.compress(LINE), "packed with bzip2; unpack it"),
        ("q.jsonl", lzma.compress(LINE), "packed with xz; unpack it"),
        ("q.csv", b"<!DOCTYPE html><html>", "a web page and not the file"),
        ("q.jsonl", b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        ("q.jsonl", LINE + b"[" * 100_000, "row 2: nested too deeply"),
        ("q.json", b"[" * 100_000, "nested too deeply"),
        ("q.jsonl", LINE + b'{"a": ' + b"9" * 5000 + b"}", "row 2: not JSON"),
        ("q.csv", b"question,answer,answer\nwho,x,y\n", "the header has the column 'answer' twice"),
        ("q.csv", b"asked,answer\nwho,x\n", "row 1: 1 cells, not 2"),
        ("q.tsv", b"asked\tanswer\nwho\tx\n", "row 1: not a list literal; a table has a header"),
        ("q.tsv", b'question\tanswer\n"who" is it\tx\n', "row 1: '\t' expected after"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(name: str, data: bytes, words: str) -> None:
    assert fault(name, data).startswith(words)


def _tar(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        item = tarfile.TarInfo("corpus.jsonl")
        item.size = len(data)
        archive.addfile(item, io.BytesIO(data))
    return buffer.getvalue()


def _zip(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("q.csv", data)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("pack", "words"), [(_tar, "a tar archive; unpack it"), (_zip, "a zip archive or a workbook")]
)
def test_archives_are_named(pack: Callable[[bytes], bytes], words: str) -> None:
    assert fault("c.jsonl.gz", pack(LINE)).startswith(words)


def test_parquet_is_told_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    frame = pl.DataFrame({"question": ["who"], "answer": [["a\u2028b"]], "id": [0]})
    frame.write_parquet(path)
    assert list(read_records(path)) == [(1, frame.row(0, named=True))]
    data = path.read_bytes()
    assert fault("rows.parquet", data[:-20]).startswith("damaged or truncated Parquet file")


def test_parquet_with_bytes_that_are_no_text_names_the_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    binary = pa.array([b"good", b"\xff"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 2, binary.buffers())
    pa.parquet.write_table(pa.table({"text": texts}), path)
    with pytest.raises(ValueError, match=r"rows\.parquet: row 2: not UTF-8"):
        list(read_records(path))


def test_folders_of_datasets_are_read_in_their_order(tmp_path: Path) -> None:
    rows = [{"question": f"who {n}", "answer": ["x"], "id": n} for n in range(3)]
    whole = Dataset.from_list(rows)
    whole.select([2, 0]).save_to_disk(str(tmp_path / "one"))
    assert list(read_records(tmp_path / "one")) == [(1, rows[2]), (2, rows[0])]
    parts = {"train": whole.select([0, 1]), "validation": whole.select([2])}
    DatasetDict(parts).save_to_disk(str(tmp_path / "two"))
    found = list(read_records(tmp_path / "two"))
    assert [(number, row["id"], row["split"]) for number, row in found] == [
        (1, 0, "train"), (2, 1, "train"), (3, 2, "validation"),
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"no folder that datasets\.load_from_disk opens"):
        list(read_records(tmp_path))


def test_no_module_reads_json_by_lines_that_end_elsewhere() -> None:
    """``splitlines`` breaks at signs that a text may hold."""
    found = {module.name for module in modules() if any(map(reads_lines, ast.walk(module.tree)))}
    assert found == set()
    assert reads_lines(ast.parse("[json.loads(line) for line in text.splitlines()]").body[0])


def reads_lines(node: ast.AST) -> bool:
    """Whether a statement or comprehension loads the lines that ``splitlines`` gives."""
    if not isinstance(node, ast.For | ast.Assign | ast.Expr | ast.Return):
        return False
    calls = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    return {"splitlines", "loads"} <= calls
