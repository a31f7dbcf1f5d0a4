"""The two output grammars (Sections 3.1 and 3.2): agent turns and rankings.

A parser returns a value or the reason why there is none. It never repairs, never raises, and sees
only what the policy itself wrote, so tags inside passages or prompts cannot change its verdict.
"""

import json
import re
from dataclasses import dataclass

_BLOCK = re.compile(r"</?(?:reason|tool_call|answer|rerank)>")
_TURN = re.compile(
    r"\s*<reason>(?P<reason>.*?)</reason>\s*"
    r"(?:<tool_call>(?P<call>.*?)</tool_call>|<answer>(?P<answer>.*?)</answer>)\s*",
    re.DOTALL,
)
_RANKING = re.compile(
    r"\s*<reason>(?P<reason>.*?)</reason>\s*<rerank>(?P<ranking>.*?)</rerank>\s*", re.DOTALL
)
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
    """Why the text is not of the grammar; one of a small set of names, so that they can be counted."""

    reason: str


def parse_turn(text: str) -> Search | Answer | Malformed:
    """The action of one agent turn, or why it is none."""
    match = _TURN.fullmatch(text)
    if match is None or len(_BLOCK.findall(text)) != 4:
        return Malformed("blocks")
    if not match["reason"].strip():
        return Malformed("blank_reason")
    if match["answer"] is not None:
        if not match["answer"].strip():
            return Malformed("blank_answer")
        return Answer(match["answer"].strip(), match.span("reason"), match.span("answer"))
    query = _query_of(match["call"])
    if isinstance(query, Malformed):
        return query
    return Search(query, match.span("reason"), _query_span(text, match.start("call")))


def _query_of(call: str) -> str | Malformed:
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
    if any("\ud800" <= char <= "\udfff" for char in query):
        return Malformed("query_text")
    return query.strip() or Malformed("blank_query")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; a key written twice is a fault, not a choice."""
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)


def _query_span(text: str, call_start: int) -> CharSpan:
    """Characters of the query's JSON string; the empty span at the call if its key is escaped."""
    key = _QUERY_VALUE.search(text, call_start)
    if key is None:
        return call_start, call_start
    return key.span(1)


def parse_ranking(text: str, *, candidates: int, wanted: int) -> Ranking | Malformed:
    """Exactly ``wanted`` distinct ids between 1 and ``candidates``, separated by ``>``."""
    match = _RANKING.fullmatch(text)
    if match is None or len(_BLOCK.findall(text)) != 4:
        return Malformed("blocks")
    if not match["reason"].strip():
        return Malformed("blank_reason")
    parts = [_RANKED_ID.fullmatch(part) for part in match["ranking"].split(">")]
    ids = [int(part[1]) for part in parts if part is not None]
    if len(ids) != len(parts):
        return Malformed("ids")
    if len(ids) != wanted:
        return Malformed("id_count")
    if len(set(ids)) != len(ids):
        return Malformed("id_twice")
    if max(ids) > candidates:
        return Malformed("id_range")
    return Ranking(tuple(number - 1 for number in ids))
