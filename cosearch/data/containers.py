"""Opens a file by what it holds: how it is packed, its byte order mark and its encoding.

The name of a file says nothing here. Gzip and Zstandard are unpacked. Text is UTF-8, with or
without a byte order mark. Lines end at "\\n" alone, because a text may hold U+2028, U+0085 and
other signs at which ``str.splitlines`` breaks. Whatever cannot be read raises a ``ValueError`` of
one line that names the file, the line (counted from 1) and what to do.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

PARQUET = b"PAR1"
_BOM = b"\xef\xbb\xbf"
_HEAD_BYTES = 512
_DAMAGE = (EOFError, zlib.error, OSError)
_TAR_AT = 257


def _open_gzip(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path))


def _open_zstd(path: Path) -> BinaryIO:
    stream = pa.input_stream(str(path), compression="zstd")
    return io.BufferedReader(cast(io.RawIOBase, stream))


_PACKED: Mapping[bytes, tuple[str, Callable[[Path], BinaryIO]]] = {
    b"\x1f\x8b": ("gzip", _open_gzip),
    b"\x28\xb5\x2f\xfd": ("Zstandard", _open_zstd),
}
_REFUSED: Mapping[bytes, str] = {
    b"PK\x03\x04": "a zip archive or a workbook; unpack it, or save the sheet as CSV",
    b"BZh": "packed with bzip2; unpack it",
    b"\xfd7zXZ": "packed with xz; unpack it",
    b"\xff\xfe": "UTF-16; save it as UTF-8",
    b"\xfe\xff": "UTF-16; save it as UTF-8",
    b"version https://git-lfs": "a Git LFS pointer and not the file; run `git lfs pull`",
    b"<!doctype html": "a web page and not the file; download it again",
    b"<html": "a web page and not the file; download it again",
}
"""First bytes, in lower case if they are letters, and what the file is."""


def head_of(path: Path) -> bytes:
    """The first bytes of a file as they are on disk. Raises ValueError where there is no file."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES)


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The content of a file, unpacked.

    Raises ValueError if its first bytes tell that it is no text. While it is read, a damaged file
    raises EOFError, zlib.error or OSError.
    """
    head = head_of(path)
    packing = _packing(head)
    with _PACKED[packing][1](path) if packing else path.open("rb") as stream:
        inside = _peek(path, stream) if packing else head
        if packing and (_packing(inside) or inside.startswith(PARQUET)):
            raise ValueError(f"{path}: packed twice; unpack it once")
        if fault := _refusal(inside):
            raise ValueError(f"{path}: {fault}")
        yield stream


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines and their numbers, each with its "\\n", without the byte order mark."""
    number = 0
    with open_bytes(path) as stream:
        try:
            for number, line in enumerate(stream, start=1):
                yield number, line.removeprefix(_BOM) if number == 1 else line
        except _DAMAGE as error:
            raise _damaged(path, number, error) from error


def read_text(path: Path) -> str:
    """The whole text, without the byte order mark and with line ends as they are."""
    with open_bytes(path) as stream:
        try:
            data = stream.read().removeprefix(_BOM)
        except _DAMAGE as error:
            raise _damaged(path, 0, error) from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(_not_utf8(path, line, error)) from error


def decode_line(path: Path, number: int, line: bytes) -> str:
    """A line as text. Raises ValueError if it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(_not_utf8(path, number, error)) from error


def _not_utf8(path: Path, line: int, error: UnicodeDecodeError) -> str:
    byte = error.object[error.start]
    return f"{path}: line {line}: not UTF-8 (byte 0x{byte:02x}); save the file as UTF-8"


def _packing(head: bytes) -> bytes | None:
    return next((magic for magic in _PACKED if head.startswith(magic)), None)


def _peek(path: Path, stream: BinaryIO) -> bytes:
    try:
        return cast(io.BufferedReader, stream).peek(_HEAD_BYTES)[:_HEAD_BYTES]
    except _DAMAGE as error:
        raise _damaged(path, 0, error) from error


def _refusal(head: bytes) -> str | None:
    if head[_TAR_AT:].startswith(b"ustar"):
        return "a tar archive; unpack it and name the file inside"
    start = head.lstrip().lower()
    found = (words for magic, words in _REFUSED.items() if start.startswith(magic.lower()))
    return next(found, None)


def _damaged(path: Path, line: int, error: Exception) -> Exception:
    """What to raise if a stream breaks: a ValueError with the last good line if it was packed."""
    packing = _packing(head_of(path))
    if packing is None:
        return error
    words = f"damaged or truncated {_PACKED[packing][0]} file after line {line}"
    return ValueError(f"{path}: {words} ({error}); download it again")
