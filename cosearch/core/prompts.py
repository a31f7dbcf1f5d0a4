"""Prompts: a template file becomes chat messages made of trusted and untrusted segments.

A template holds one block per message; a line ``### ROLE`` opens a block. Text of the template and
numbers are trusted; a string that fills a ``{field}`` is not; a segment that fills one stays what
it is. A last block ``### opening`` is no message: the reply begins with its text, so the model does
not write it, and nothing is learnt from it.
"""

import string
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from cosearch.core.protocols import Codec, Message, Segment
from cosearch.core.types import Cuts, Passage

OPENING = "opening"
"""Name of the block of a template that begins the reply."""
Fill = str | int | Sequence[Segment]
"""What fills a field of a template."""


@cache
def load_template(set_name: str, name: str) -> tuple[tuple[str, str], ...]:
    """(role, text) blocks of ``templates/SET/NAME.txt``.

    Raises ValueError for a missing file and for text before the first ``### ROLE``.
    """
    path = files("cosearch.core") / "templates" / set_name / f"{name}.txt"
    if not path.is_file():
        raise ValueError(f"no prompt template {name!r} in template set {set_name!r} ({path})")
    blocks: list[tuple[str, list[str]]] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.startswith("### "):
            blocks.append((line[4:].strip(), []))
        elif not blocks:
            raise ValueError(f"{path} does not start with a line '### ROLE'")
        else:
            blocks[-1][1].append(line)
    return tuple((role, "\n".join(lines).strip("\n")) for role, lines in blocks)


def load_messages(set_name: str, name: str) -> tuple[tuple[str, str], ...]:
    """(role, text) of a template's messages: all its blocks but the opening."""
    blocks = load_template(set_name, name)
    return blocks[:-1] if blocks[-1][0] == OPENING else blocks


def load_opening(set_name: str, name: str) -> str:
    """What the reply to a template begins with; empty for a template without an opening."""
    role, text = load_template(set_name, name)[-1]
    return text if role == OPENING else ""


def load_text(set_name: str, name: str) -> str:
    """The text of a template of one message. Raises ValueError if it has more, or none."""
    ((_, text),) = load_messages(set_name, name)
    return text


def opening_ids(codec: Codec, opening: str) -> list[int]:
    """Ids of ``opening``, which go between a prompt and what the model writes."""
    return codec.encode((Segment(opening, trusted=True),)) if opening else []


def fill_text(text: str, fills: Mapping[str, Fill]) -> tuple[Segment, ...]:
    """Segments of one template text. Raises KeyError for a field without a fill."""
    segments: list[Segment] = []
    for literal, field, _, _ in string.Formatter().parse(text):
        if literal:
            segments.append(Segment(literal, trusted=True))
        if field is not None:
            value = fills[field]
            if isinstance(value, str | int):
                segments.append(Segment(str(value), trusted=isinstance(value, int)))
            else:
                segments.extend(value)
    return tuple(segments)


def fill_template(set_name: str, name: str, fills: Mapping[str, Fill]) -> tuple[Message, ...]:
    """Chat messages of a template."""
    return tuple(
        Message(role, fill_text(text, fills)) for role, text in load_messages(set_name, name)
    )


@dataclass(frozen=True, slots=True)
class Prompting:
    """How prompts are written: from which set of templates, and how a document looks in them."""

    templates: str
    """Name of the template set, a folder of ``core/templates``."""
    document: str
    """Template of one document, with the fields ``number``, ``title`` and ``text``."""
    max_document_chars: int
    """A document's text is cut to this many characters."""

    def text(self, name: str) -> str:
        """The text of template ``name`` of the set, which has one block."""
        return load_text(self.templates, name)

    def fill(self, name: str, fills: Mapping[str, Fill]) -> tuple[Message, ...]:
        """Chat messages of template ``name`` of the set."""
        return fill_template(self.templates, name, fills)

    def opening(self, name: str) -> str:
        """What the reply to template ``name`` of the set begins with."""
        return load_opening(self.templates, name)

    def chat(self, codec: Codec, name: str, fills: Mapping[str, Fill]) -> list[int]:
        """Ids of a conversation that template ``name`` starts, up to where the model goes on."""
        return [*codec.chat(self.fill(name, fills)), *opening_ids(codec, self.opening(name))]

    def cuts(self, passages: Sequence[Passage], dropped: int) -> Cuts:
        """Which texts ``documents`` cuts, without the last ``dropped`` passages."""
        return tuple(
            (place, self.max_document_chars)
            for place, passage in enumerate(passages[: len(passages) - dropped])
            if len(passage.text) > self.max_document_chars
        )

    def documents(self, passages: Sequence[Passage]) -> list[tuple[Segment, ...]]:
        """Segments of each passage, numbered from 1."""
        return [
            fill_text(
                self.document,
                {
                    "number": number,
                    "title": passage.title,
                    "text": passage.text[: self.max_document_chars],
                },
            )
            for number, passage in enumerate(passages, start=1)
        ]


def fit_documents(
    render: Callable[[Sequence[tuple[Segment, ...]]], list[int]],
    documents: Sequence[tuple[Segment, ...]],
    *,
    max_tokens: int,
) -> tuple[list[int], int]:
    """Ids of as many whole documents from the front as fit, and how many were left out.

    ``render`` gives the ids of some documents with everything around them; more documents never
    have fewer ids. The ids are empty when even those without any document exceed ``max_tokens``,
    because what stands around the documents is never cut.
    """
    everything = render(documents)
    if len(everything) <= max_tokens:
        return everything, 0
    counts = range(len(documents))
    fitting = bisect_right(counts, max_tokens, key=lambda count: len(render(documents[:count])))
    if fitting == 0:
        return [], len(documents)
    return render(documents[: fitting - 1]), len(documents) - (fitting - 1)
