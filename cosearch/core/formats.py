"""The output grammars (Sections 3.1 and 3.2): agent turns and rankings.

A ``Grammar`` names the blocks of an agent's turn, and says whether a search is a JSON call or the
query alone. CoSearch uses ``react``; ``tags`` is the form of Search-R1.
A parser returns a value, or the reason why the text has none. It repairs nothing, raises nothing,
and sees only what the policy itself wrote, so tags inside passages or prompts cannot change what it
returns. Every parser reads its text once, so the time grows with the length of the text only.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice


@dataclass(frozen=True, slots=True)
class Grammar:
    """Tag names of an agent's turn. ``query_form``: the search block holds the JSON call of a tool
    (``json``) or nothing but the query (``text``)."""

    reason: str
    search: str
    answer: str
    query_form: str


GRAMMARS: Mapping[str, Grammar] = {
    "react": Grammar("reason", "tool_call", "answer", "json"),
    "tags": Grammar("think", "search", "answer", "text"),
}
"""``react``: the paper's own (Section 3.1). ``tags``: Search-R1's (arXiv 2503.09516)."""

RANKING_BLOCKS = ("reason", "rerank")
"""Tag names of a ranking (Section 3.2)."""

_NAMES = dict.fromkeys(
    [*(name for g in GRAMMARS.values() for name in (g.reason, g.search, g.answer)), *RANKING_BLOCKS]
)
TAGS = tuple(tag for name in _NAMES for tag in (f"<{name}>", f"</{name}>"))
"""Every tag of every grammar. A tag at a place where the grammar does not allow it is a fault."""
MAX_CALL_CHARS = 4096
"""A longer search block is malformed, and is not read (not in paper)."""

_TAG = re.compile(f"</?(?:{'|'.join(_NAMES)})>")
_QUERY_VALUE = re.compile(r'"query"\s*:\s*"((?:[^"\\]|\\.)*)"')
_RANKED_ID = re.compile(r"\s*\[([1-9][0-9]{0,5})\]\s*", re.ASCII)

CharSpan = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Search:
    """The agent asks for ``query``. Character spans refer to the turn's text."""

    query: str
    reason_at: CharSpan
    query_at: CharSpan


@dataclass(frozen=True, slots=True)
class Answer:
    """The agent ends with ``text``."""

    text: str
    reason_at: CharSpan
    answer_at: CharSpan


@dataclass(frozen=True, slots=True)
class Ranking:
    """Positions in D_N (from 0), best first, exactly as many as were asked for."""

    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Malformed:
    """The text breaks the grammar. ``reason`` is one of a few names, so faults can be counted."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Blocks:
    """A text of a reason and one block NAME after it: where each content stands."""

    name: str
    reason_at: CharSpan
    action_at: CharSpan


def parse_turn(text: str, grammar: Grammar) -> Search | Answer | Malformed:
    """The action of one agent turn, or the reason why the turn is malformed."""
    blocks = _two_blocks(text, grammar.reason, (grammar.search, grammar.answer))
    if isinstance(blocks, Malformed):
        return blocks
    content = text[slice(*blocks.action_at)]
    if blocks.name == grammar.answer:
        answer = content.strip()
        if not answer:
            return Malformed("blank_answer")
        return Answer(answer, blocks.reason_at, blocks.action_at)
    if len(content) > MAX_CALL_CHARS:
        return Malformed("call_length")
    read, find = _QUERY_FORMS[grammar.query_form]
    query = read(content)
    if isinstance(query, Malformed):
        return query
    return Search(query, blocks.reason_at, find(text, blocks.action_at))


def parse_ranking(text: str, *, candidates: int, wanted: int) -> Ranking | Malformed:
    """Exactly ``wanted`` distinct ids between 1 and ``candidates``, separated by ``>``."""
    reason, rerank = RANKING_BLOCKS
    blocks = _two_blocks(text, reason, (rerank,))
    if isinstance(blocks, Malformed):
        return blocks
    parts = text[slice(*blocks.action_at)].split(">")
    matches = [_RANKED_ID.fullmatch(part) for part in parts]
    ids = [int(match[1]) for match in matches if match is not None]
    if len(ids) != len(parts):
        return Malformed("ids")
    if len(ids) != wanted:
        return Malformed("id_count")
    if len(set(ids)) != len(ids):
        return Malformed("id_twice")
    if max(ids) > candidates:
        return Malformed("id_range")
    return Ranking(tuple(number - 1 for number in ids))


def _two_blocks(text: str, reason: str, actions: tuple[str, ...]) -> _Blocks | Malformed:
    """The two blocks of a turn. A fifth tag is a fault wherever it stands, even inside a reason,
    because the parser does not guess which of two actions a text means."""
    tags = list(islice(_TAG.finditer(text), 5))
    name = tags[2][0][1:-1] if len(tags) == 4 else ""
    wanted = [f"<{reason}>", f"</{reason}>", f"<{name}>", f"</{name}>"]
    if name not in actions or [tag[0] for tag in tags] != wanted:
        return Malformed("blocks")
    opening, closing, action, end = tags
    between = text[: opening.start()], text[closing.end() : action.start()], text[end.end() :]
    if any(piece.strip() for piece in between):
        return Malformed("text_outside")
    reason_at = opening.end(), closing.start()
    if not text[slice(*reason_at)].strip():
        return Malformed("blank_reason")
    return _Blocks(name, reason_at, (action.end(), end.start()))


def _json_query(call: str) -> str | Malformed:
    """The query of a ``search`` call in JSON, or why the call is malformed."""
    try:
        value = json.loads(call, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return Malformed("json")
    if not isinstance(value, dict) or set(value) != {"name", "arguments"}:
        return Malformed("call_keys")
    if value["name"] != "search":
        return Malformed("tool_name")
    arguments = value["arguments"]
    if not isinstance(arguments, dict) or set(arguments) != {"query"}:
        return Malformed("argument_keys")
    query = arguments["query"]
    if not isinstance(query, str):
        return Malformed("query_type")
    return _bare_query(query)


def _bare_query(query: str) -> str | Malformed:
    """The query without the blanks around it."""
    if any("\ud800" <= char <= "\udfff" for char in query):
        return Malformed("query_text")
    return query.strip() or Malformed("blank_query")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object. Raises ValueError for a key that is written twice."""
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)


def _json_query_span(text: str, call_at: CharSpan) -> CharSpan:
    """Characters of the query's JSON string; the empty span at the call if its key is escaped."""
    value = _QUERY_VALUE.search(text, *call_at)
    return value.span(1) if value else (call_at[0], call_at[0])


_QUERY_FORMS: Mapping[
    str, tuple[Callable[[str], str | Malformed], Callable[[str, CharSpan], CharSpan]]
] = {
    "json": (_json_query, _json_query_span),
    "text": (_bare_query, lambda _, query_at: query_at),
}
"""How the query of a search block is read, and where in the turn it stands."""
