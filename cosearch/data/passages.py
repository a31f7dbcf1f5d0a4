"""Passages of published files, told apart by the keys of each row. Their text stays as it is.

The first rows of a file show how its text was stored: whether ``contents`` carry the quoting of
wiki-18's CSV export, and whether the sentences of a context carry the blanks between them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

from cosearch.core.types import Passage
from cosearch.data.records import Numbered, Record, read_records
from cosearch.data.values import read_id, read_string, read_table, shown

_HEAD_ROWS = 1000
_CARRIED_SHARE = 0.1
_BODIES = ("body", "sentences", "content", "paragraph_text", "text")
"""Keys of a paragraph's text in published contexts."""
_ODD_QUOTES = re.compile(r'(?<!")"(?:"")*(?!")')


@dataclass(frozen=True, slots=True)
class TextStyle:
    """``quoted``: titles in contents are in quotes, unless they are one word. ``doubled``: quotes
    inside are doubled. ``glue``: what stands between sentences."""

    quoted: bool
    doubled: bool
    glue: str


def read_passages(path: str | Path) -> Iterator[Passage]:
    """Passages of a published file, streaming.

    wiki-18 JSON lines (id, contents), ``psgs_w100.tsv`` (id, text, title), rows with text and
    perhaps title (the mini corpus; BEIR, whose key is ``_id``), and questions with context
    paragraphs (HotpotQA, 2WikiMultihopQA, MuSiQue, PopQA with paragraphs). Passages without an id
    of their own come with a blank one. Raises ValueError naming file, row and key.
    """
    path = Path(path)
    style, records = open_style(read_records(path))
    for number, record in records:
        try:
            found = passages_of(record, style)
        except ValueError as error:
            raise ValueError(f"{path}: row {number}: not a passage: {error}") from error
        yield from found


def open_style(records: Numbered) -> tuple[TextStyle, Numbered]:
    """The style that the first rows show, and all rows."""
    head = list(islice(records, _HEAD_ROWS))
    rows = [record for _, record in head]
    return TextStyle(*_quoting(rows), _glue(rows)), chain(head, records)


def passages_of(record: Record, style: TextStyle) -> list[Passage]:
    """Passages of one row. Raises ValueError that names the key."""
    if "contents" in record and not {"title", "text"} <= record.keys():
        title, text = split_contents(read_string(record["contents"], "contents"))
        return [_passage(record, *unquote(title, text, style))]
    if "text" in record:
        return [_passage(record, record.get("title"), record["text"])]
    key = next((key for key in ("context", "paragraphs") if key in record), None)
    if key is None:
        raise ValueError(f"no known layout has keys {sorted(record)}")
    rows = read_table(record[key], key)
    return [_passage({}, row.get("title"), _body(row, key, style.glue)) for row in rows]


def split_contents(contents: str) -> tuple[str, str]:
    """Title and text of ``contents``: the first line and the rest."""
    title, newline, text = contents.partition("\n")
    if not newline:
        raise ValueError("'contents' has no line break between title and text")
    return title, text


def unquote(title: str, text: str, style: TextStyle) -> tuple[str, str]:
    """Title and text of contents without the quoting of the file's style.

    A text with a single quote was not exported with doubled ones, and stays.
    """
    if style.quoted and _quoted(title):
        title = title[1:-1].replace('""', '"') if style.doubled else title[1:-1]
    if style.doubled and not _ODD_QUOTES.search(text):
        text = text.replace('""', '"')
    return title, text


def _quoted(title: str) -> bool:
    return len(title) > 1 and title[0] == title[-1] == '"'


def _quoting(rows: Sequence[Record]) -> tuple[bool, bool]:
    """``quoted``: most titles of several words are. ``doubled``: they are, and most texts with
    quotes have no single one."""
    contents = [row["contents"] for row in rows if isinstance(row.get("contents"), str)]
    parts = [text.partition("\n") for text in contents]
    quoted = sum(_quoted(title) for title, _, _ in parts)
    plain = sum(" " in title and not _quoted(title) for title, _, _ in parts)
    texts = [text for _, _, text in parts if '"' in text]
    single = sum(bool(_ODD_QUOTES.search(text)) for text in texts)
    return quoted > plain, quoted > plain and 2 * single <= len(texts)


def _glue(rows: Sequence[Record]) -> str:
    """Nothing if borders of sentences carry blanks (HotpotQA: 99 %), else a blank (2Wiki: 0 %)."""
    carried = [
        left[-1:].isspace() or right[:1].isspace()
        for sentences in chain.from_iterable(map(_contexts, rows))
        for left, right in pairwise(sentences)
    ]
    return "" if sum(carried) > _CARRIED_SHARE * len(carried) else " "


def _contexts(record: Record) -> Iterator[list[str]]:
    """Sentences of each paragraph, as far as the row is well formed."""
    try:
        rows = read_table(record.get("context"), "context")
    except ValueError:
        return
    for row in rows:
        body = _first(row)
        if isinstance(body, list) and all(isinstance(one, str) for one in body):
            yield body


def _first(row: Mapping[str, Any]) -> object:
    return next((row[key] for key in _BODIES if key in row), None)


def _body(row: Mapping[str, Any], key: str, glue: str) -> str:
    body = _first(row)
    if isinstance(body, list | tuple):
        return glue.join(read_string(one, key) for one in body)
    if body is None:
        raise ValueError(f"{key!r} has a paragraph without text: {shown(dict(row))}")
    return read_string(body, key)


def _passage(record: Record, title: object, text: object) -> Passage:
    name = "" if title is None else read_string(title, "title")
    body = read_string(text, "text")
    if not body.strip():
        raise ValueError(f"passage {name!r} has no text")
    return Passage(read_id(record, ("id", "_id")) or "", name, body)
