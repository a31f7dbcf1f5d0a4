"""Typed values of a row: texts, ids, splits, lists that are written as text, and tables in a cell.

Every function raises a ``ValueError`` that names the key; readers add file and row.
"""

import ast
import json
import re
import reprlib
import warnings
from collections.abc import Mapping
from types import NoneType
from typing import Any

from cosearch.data.records import Record

_IDS = ("id", "_id", "question_id", "QuestionId")
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "valid", "validation", "val"), "dev"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""Names of splits in published files."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ITEM = rf"(?:{_QUOTED}|np\.str_\((?:{_QUOTED})\))"
_WRITTEN = re.compile(
    rf"\[\s*(?:{_ITEM}(?:\s*,\s*{_ITEM})*\s*,?|{_ITEM}(?:\s+{_ITEM})*)?\s*\]", re.DOTALL
)
"""A list as Python writes it (with commas) or as numpy does (with blanks)."""
_ARRAY = re.compile(r"array\((\[.*\])(?:,\s*dtype=[^\[\]]*)?\)", re.DOTALL)


def shown(value: object) -> str:
    """A short form of any value, for messages."""
    return f"{type(value).__name__} {reprlib.repr(value)}"


def read_string(value: object, key: str) -> str:
    """A text that UTF-8 can hold, unchanged."""
    if not isinstance(value, str):
        raise ValueError(f"{key!r} is not a text but {shown(value)}")
    if not value.isascii() and (half := _SURROGATE.search(value)):
        code, at = f"\\u{ord(half[0]):04x}", half.start() + 1
        raise ValueError(f"{key!r} has half of a surrogate pair ({code}) as its character {at}")
    return value


def read_strings(value: object, key: str) -> tuple[str, ...]:
    """The texts of a list, of a list that is written as text, or of None, which is an empty one."""
    value = written_list(value, key) if isinstance(value, str) else value
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise ValueError(f"{key!r} is not a list but {shown(value)}")
    return tuple(dict.fromkeys(read_string(one, key) for one in value))


def read_id(record: Record, keys: tuple[str, ...] = _IDS) -> str | None:
    """The id of a row, or None if it is missing, null or blank."""
    key = next((key for key in keys if record.get(key) is not None), None)
    if key is None:
        return None
    value = record[key]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"{key!r} is neither a text nor a whole number but {shown(value)}")
    return read_string(value, key) or None


def read_ids(value: object, key: str) -> tuple[str, ...]:
    """The distinct ids of a list, as ``read_strings`` takes one; whole numbers are ids too."""
    if isinstance(value, str):
        value = written_list(value, key)
    if not isinstance(value, list | tuple | NoneType):
        raise ValueError(f"{key!r} is not a list but {shown(value)}")
    found = (read_id({key: one}, (key,)) for one in value or ())
    return tuple(dict.fromkeys(id_ for id_ in found if id_ is not None))


def read_split(value: object) -> str | None:
    """``train``, ``dev`` or ``test`` for any usual name of a split; None for none."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or value.strip().lower() not in SPLIT_NAMES:
        raise ValueError(f"'split' is none of {', '.join(SPLIT_NAMES)} but {shown(value)}")
    return SPLIT_NAMES[value.strip().lower()]


def written_list(text: str, key: str) -> list[Any]:
    """A list that is written as text by JSON, Python or numpy.

    JSON comes first, since Python would read its escaped pairs of surrogates as two signs.
    """
    body = text.strip()
    body = found[1] if (found := _ARRAY.fullmatch(body)) else body
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = _literals(body) if _WRITTEN.fullmatch(body) else None
    if not isinstance(value, list):
        words = f"not a list literal of JSON, Python or numpy: {reprlib.repr(text)}"
        raise ValueError(f"{key!r}: {words}; write a text that begins so as a list")
    return value


def read_table(value: object, key: str) -> list[Mapping[str, Any]]:
    """Rows of a table in a cell, which may be written as JSON.

    A table is a list of objects, an object of columns, or a list of pairs, whose parts become
    ``title`` and ``body``.
    """
    value = _loaded(value, key) if isinstance(value, str) else value
    if isinstance(value, Mapping):
        names, columns = list(value), list(value.values())
        if not all(isinstance(one, list) and len(one) == len(columns[0]) for one in columns):
            raise ValueError(f"{key!r} is not a table: columns of unequal length, or no columns")
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if not isinstance(value, list | tuple):
        raise ValueError(f"{key!r} is not a table but {shown(value)}")
    return [_table_row(row, key) for row in value]


def _table_row(row: object, key: str) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if isinstance(row, list | tuple) and len(row) == 2:
        return {"title": row[0], "body": row[1]}
    raise ValueError(f"{key!r} has a row that is neither an object nor a pair but {shown(row)}")


def _loaded(text: str, key: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{key!r} is a text that is not JSON: {reprlib.repr(text)}") from error


def _literals(body: str) -> list[str] | None:
    """Strings of a written list, or None if one of them is no literal."""
    strings = ",".join(re.findall(_QUOTED, body, re.DOTALL))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an unknown escape
            found = ast.literal_eval(f"[{strings}]")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    whole = "surrogatepass"  # joins the pairs that Python's escapes leave apart
    return [one.encode("utf-16", whole).decode("utf-16", whole) for one in found]
