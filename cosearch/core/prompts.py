"""Prompts as data: a template file becomes chat messages made of trusted and untrusted segments.

A template holds one block per message, opened by a line ``### ROLE``. Text of the template is
trusted; whatever fills a ``{field}`` is data, unless it is given as segments.
"""

import string
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from cosearch.core.protocols import Codec, Message, Segment
from cosearch.core.types import Passage

Fill = str | int | Sequence[Segment]


@cache
def load_template(set_name: str, name: str) -> tuple[tuple[str, str], ...]:
    """(role, text) blocks of ``templates/SET/NAME.txt``. Raises ValueError naming a missing file."""
    path = files("cosearch.core") / "templates" / set_name / f"{name}.txt"
    if not path.is_file():
        raise ValueError(f"no prompt template {name!r} in template set {set_name!r} ({path})")
    blocks: list[tuple[str, list[str]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            blocks.append((line[4:].strip(), []))
        else:
            blocks[-1][1].append(line)
    return tuple((role, "\n".join(lines).strip("\n")) for role, lines in blocks)


def fill_text(text: str, fills: Mapping[str, Fill]) -> tuple[Segment, ...]:
    """Segments of one template text. Raises KeyError for a field without a fill."""
    segments: list[Segment] = []
    for literal, field, _, _ in string.Formatter().parse(text):
        if literal:
            segments.append(Segment(literal, trusted=True))
        if field is not None:
            value = fills[field]
            if isinstance(value, str | int):
                segments.append(Segment(str(value), trusted=False))
            else:
                segments.extend(value)
    return tuple(segments)


def fill_template(set_name: str, name: str, fills: Mapping[str, Fill]) -> tuple[Message, ...]:
    """Chat messages of a template."""
    return tuple(
        Message(role, fill_text(text, fills)) for role, text in load_template(set_name, name)
    )


def document_segments(
    document: str, passages: Sequence[Passage], *, max_chars: int
) -> list[tuple[Segment, ...]]:
    """Segments of each passage under the document template, numbered from 1.

    ``document`` has the fields ``number``, ``title`` and ``text``; ``max_chars`` cuts a text.
    """
    return [
        fill_text(
            document,
            {"number": number, "title": passage.title, "text": passage.text[:max_chars]},
        )
        for number, passage in enumerate(passages, start=1)
    ]


def fit_documents(
    codec: Codec, documents: Sequence[tuple[Segment, ...]], *, max_tokens: int
) -> tuple[list[Segment], int]:
    """As many whole documents from the front as fit into ``max_tokens``, and how many were left out."""
    kept: list[Segment] = []
    used = 0
    for position, document in enumerate(documents):
        used += len(codec.encode(document))
        if used > max_tokens:
            return kept, len(documents) - position
        kept.extend(document)
    return kept, 0
