"""The two output grammars (Sections 3.1 and 3.2): agent turns and rankings.

A parser returns a value or the reason why there is none. It never repairs, never raises, and sees
only what the policy itself wrote, so tags inside passages or prompts cannot change its verdict.
Every parser reads its text once: hostile output costs no more than its length.
"""

import json
import re
from dataclasses import dataclass
from itertools import islice

TAGS = (
    *("<reason>", "</reason>", "<tool_call>", "</tool_call>"),
    *("<answer>", "</answer>", "<rerank>", "</rerank>"),
)
MAX_CALL_CHARS = 4096
"""A longer tool call is malformed before it is read as JSON (not in paper)."""

_TAG = re.compile(r"</?(?:reason|tool_call|answer|rerank)>")
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
    """Why the text is not of the grammar; one of a few names, so that they can be counted."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Blocks:
    """A text of exactly ``<reason>…</reason><NAME>…</NAME>``: where each content stands."""

    name: str
    reason_at: CharSpan
    action_at: CharSpan


def parse_turn(text: str) -> Search | Answer | Malformed:
    """The action of one agent turn, or why it is none."""
    blocks = _two_blocks(text, ("tool_call", "answer"))
    if isinstance(blocks, Malformed):
        return blocks
    content = text[slice(*blocks.action_at)]
    if blocks.name == "answer":
        answer = content.strip()
        if not answer:
            return Malformed("blank_answer")
        return Answer(answer, blocks.reason_at, blocks.action_at)
    query = _query_of(content)
    if isinstance(query, Malformed):
        return query
    return Search(query, blocks.reason_at, _query_span(text, blocks.action_at))


def parse_ranking(text: str, *, candidates: int, wanted: int) -> Ranking | Malformed:
    """Exactly ``wanted`` distinct ids between 1 and ``candidates``, separated by ``>``."""
    blocks = _two_blocks(text, ("rerank",))
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


def _two_blocks(text: str, actions: tuple[str, ...]) -> _Blocks | Malformed:
    """The two blocks of a turn. A fifth tag anywhere, even inside a reason, is a fault: which of
    two actions a text means is never guessed."""
    tags = list(islice(_TAG.finditer(text), 5))
    name = tags[2][0][1:-1] if len(tags) == 4 else ""
    wanted = ["<reason>", "</reason>", f"<{name}>", f"</{name}>"]
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


def _query_of(call: str) -> str | Malformed:
    """The query of a ``search`` call in JSON, or why the call is malformed."""
    if len(call) > MAX_CALL_CHARS:
        return Malformed("call_length")
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
    if any("\ud800" <= char <= "\udfff" for char in query):
        return Malformed("query_text")
    return query.strip() or Malformed("blank_query")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; a key written twice is a fault, not a choice."""
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)


def _query_span(text: str, call_at: CharSpan) -> CharSpan:
    """Characters of the query's JSON string; the empty span at the call if its key is escaped."""
    value = _QUERY_VALUE.search(text, *call_at)
    return value.span(1) if value else (call_at[0], call_at[0])
