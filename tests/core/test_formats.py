"""The output grammars: parse or say why not, never repair, never raise, never stall."""

import gc
import json
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core import formats
from cosearch.core.formats import (
    GRAMMARS,
    MAX_CALL_CHARS,
    TAGS,
    Answer,
    Grammar,
    Malformed,
    Ranking,
    Search,
    parse_ranking,
    parse_turn,
)

REACT, BARE = GRAMMARS["react"], GRAMMARS["tags"]


def turn(call: str, reason: str = "why") -> str:
    return f"<reason>{reason}</reason><tool_call>{call}</tool_call>"


def said(query: str, reason: str = "why") -> str:
    """A search of the ``tags`` grammar."""
    return f"<think>{reason}</think><search>{query}</search>"


def search(query: object) -> str:
    return json.dumps({"name": "search", "arguments": {"query": query}})


def ranking(ids: str, reason: str = "why") -> str:
    return f"<reason>{reason}</reason><rerank>{ids}</rerank>"


CALL = search("capital of Norway")


def test_a_search() -> None:
    text = f"\n <reason> why </reason>\n\t<tool_call>\n{CALL}\n</tool_call> \n"
    action = parse_turn(text, REACT)
    assert isinstance(action, Search)
    assert action.query == "capital of Norway"
    assert text[slice(*action.reason_at)] == " why "
    assert text[slice(*action.query_at)] == "capital of Norway"


def test_an_answer() -> None:
    text = "<reason>why</reason> <answer> Oslo\n</answer>"
    action = parse_turn(text, REACT)
    assert isinstance(action, Answer)
    assert action.text == "Oslo"
    assert text[slice(*action.answer_at)] == " Oslo\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "blocks"),
        ("Oslo", "blocks"),
        ("<reason>why</reason>", "blocks"),
        ("<answer>Oslo</answer>", "blocks"),
        (turn(CALL) + turn(CALL), "blocks"),
        (f"{turn(CALL)}<tool_call>{CALL}</tool_call>", "blocks"),
        (f"{turn(CALL)}<answer>Oslo</answer>", "blocks"),
        ("<reason>why</reason><answer>Oslo", "blocks"),
        ("<reason>why<answer>Oslo</answer>", "blocks"),
        ("<answer>Oslo</answer><reason>why</reason>", "blocks"),
        ("<reason>why</reason><answer>Oslo</tool_call>", "blocks"),
        ("<reason>why</reason></answer>Oslo<answer>", "blocks"),
        ("<reason>why</reason><rerank>[1]</rerank>", "blocks"),
        ("<reason>why</reason><reason>Oslo</reason>", "blocks"),
        ("<reason>see <answer>Oslo</answer></reason><answer>x</answer>", "blocks"),
        ("<reason>why</reason><answer>a<reason>b</answer>", "blocks"),
        ("<reason>why</reason><answer>a</answer></answer>", "blocks"),
        ("<Reason>why</Reason><answer>a</answer>", "blocks"),
        ("x<reason>why</reason><answer>a</answer>", "text_outside"),
        ("<reason>why</reason>so<answer>a</answer>", "text_outside"),
        ("<reason>why</reason><answer>a</answer>.", "text_outside"),
        ("<reason>why</reason><answer>a</answer><|im_start|>", "text_outside"),
        ("<reason> \n</reason><answer>a</answer>", "blank_reason"),
        ("<reason>why</reason><answer> \u00a0</answer>", "blank_answer"),
    ],
)
def test_malformed_turns(text: str, reason: str) -> None:
    assert parse_turn(text, REACT) == Malformed(reason)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("", "json"),
        ("capital of Norway", "json"),
        (CALL[:-1], "json"),
        (CALL + CALL, "json"),
        (CALL.replace('"', "'"), "json"),
        (CALL.replace("}}", "},}"), "json"),
        (CALL.replace(" of ", "\n"), "json"),
        ("\ufeff" + CALL, "json"),
        ('{"name": "search", "name": "search", "arguments": {"query": "x"}}', "json"),
        ('{"name": "search", "arguments": {"query": "x", "query": "y"}}', "json"),
        ("[" * 4000, "json"),
        ('{"a":' * 700, "json"),
        ("[" * 2000 + "]" * 2000, "json"),
        ("9" * 4096, "call_keys"),
        (" " * MAX_CALL_CHARS + CALL, "call_length"),
        ("[1]", "call_keys"),
        ("null", "call_keys"),
        ("NaN", "call_keys"),
        ('{"name": "search"}', "call_keys"),
        (CALL[:-1] + ', "id": 1}', "call_keys"),
        (CALL.replace("search", "lookup"), "tool_name"),
        ('{"name": ["search"], "arguments": {"query": "x"}}', "tool_name"),
        ('{"name": "search", "arguments": "x"}', "argument_keys"),
        ('{"name": "search", "arguments": {}}', "argument_keys"),
        ('{"name": "search", "arguments": {"query": "x", "k": 3}}', "argument_keys"),
        (search(2004), "query_type"),
        (search(None), "query_type"),
        (search(["x"]), "query_type"),
        (search(float("nan")), "query_type"),
        (search("x \ud800"), "query_text"),
        (search(""), "blank_query"),
        (search(" \n"), "blank_query"),
    ],
    ids=lambda value: value[:40],
)
def test_malformed_calls(call: str, reason: str) -> None:
    assert parse_turn(turn(call), REACT) == Malformed(reason)


def test_a_call_of_the_largest_size_is_read() -> None:
    query = "x" * (MAX_CALL_CHARS - len(search("")))
    action = parse_turn(turn(search(query)), REACT)
    assert isinstance(action, Search)
    assert action.query == query


def test_the_bare_form_of_a_turn() -> None:
    text = "\n<think> why </think> <search> capital of Norway\n</search>\n"
    action = parse_turn(text, BARE)
    assert isinstance(action, Search)
    assert action.query == "capital of Norway"
    assert text[slice(*action.reason_at)] == " why "
    assert text[slice(*action.query_at)] == " capital of Norway\n"
    answer = parse_turn("<think>why</think><answer>Oslo</answer>", BARE)
    assert isinstance(answer, Answer)
    assert answer.text == "Oslo"


def test_a_bare_query_is_never_read_as_anything_else() -> None:
    for query in (CALL, '"quoted"', "a < b", "tab\there"):
        action = parse_turn(said(query), BARE)
        assert isinstance(action, Search)
        assert action.query == query


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "blocks"),
        ("Oslo", "blocks"),
        (turn(CALL), "blocks"),
        ("<think>why</think><tool_call>Oslo</tool_call>", "blocks"),
        ("<think>why</think><rerank>[1]</rerank>", "blocks"),
        ("<reason>why</reason><search>Oslo</search>", "blocks"),
        (said("Oslo") + said("Oslo"), "blocks"),
        (said("Oslo") + "<answer>Oslo</answer>", "blocks"),
        (said("Oslo", reason="see <reason>"), "blocks"),
        (said("Oslo <tool_call>"), "blocks"),
        ("<search>Oslo</search>", "blocks"),
        (said("Oslo") + ".", "text_outside"),
        (said("Oslo", reason=" "), "blank_reason"),
        (said(" \n"), "blank_query"),
        (said("x \ud800"), "query_text"),
        (said("x" * (MAX_CALL_CHARS + 1)), "call_length"),
        ("<think>why</think><answer> </answer>", "blank_answer"),
    ],
    ids=lambda value: value[:40].encode("ascii", "replace").decode(),
)
def test_malformed_bare_turns(text: str, reason: str) -> None:
    assert parse_turn(text, BARE) == Malformed(reason)


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_of_any_grammar_in_a_reason_is_a_fault(tag: str) -> None:
    for grammar in GRAMMARS.values():
        inside, action = f"<{grammar.reason}>{tag}</{grammar.reason}>", "<answer>x</answer>"
        assert parse_turn(inside + action, grammar) == Malformed("blocks")


def test_a_bare_query_of_the_largest_size_is_read() -> None:
    assert isinstance(parse_turn(said("x" * MAX_CALL_CHARS), BARE), Search)


def test_escapes_in_a_query_are_text() -> None:
    for query in ('say "hi"', "tab\there", "snow \u2603", "\U0001f600", "back\\slash"):
        text = turn(search(query))
        action = parse_turn(text, REACT)
        assert isinstance(action, Search)
        assert action.query == query
        assert json.loads(f'"{text[slice(*action.query_at)]}"') == query


def test_a_query_cannot_point_its_span_elsewhere() -> None:
    hidden = r'{"name": "search", "arguments": {"\u0071uery": "say \"query\": \"x\""}}'
    action = parse_turn(turn(hidden), REACT)
    assert isinstance(action, Search)
    assert action.query == 'say "query": "x"'
    assert action.query_at[0] == action.query_at[1]


def test_a_tag_written_with_escapes_inside_a_query_stays_data() -> None:
    call = r'{"name": "search", "arguments": {"query": "\u003canswer\u003e"}}'
    assert isinstance(action := parse_turn(turn(call), REACT), Search)
    assert action.query == "<answer>"


@pytest.mark.parametrize(
    "text",
    [
        ranking("[3]>[1]"),
        ranking(" [3]  >\n[1] "),
        f"\n{ranking('[3] > [1]')}\n",
        "<reason>[9] > [9]</reason>\n<rerank>[3] > [1]</rerank>",
    ],
)
def test_a_ranking(text: str) -> None:
    assert parse_ranking(text, candidates=3, wanted=2) == Ranking((2, 0))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "blocks"),
        ("[3] > [1]", "blocks"),
        ("<rerank>[3] > [1]</rerank>", "blocks"),
        (ranking("[3] > [1]") * 2, "blocks"),
        ("<reason>why</reason><answer>[3] > [1]</answer>", "blocks"),
        ("<reason><tool_call></reason><rerank>[3] > [1]</rerank>", "blocks"),
        (ranking("[3] > [1]") + "!", "text_outside"),
        (ranking("[3] > [1]", reason=" "), "blank_reason"),
        (ranking(""), "ids"),
        (ranking("[3] [1]"), "ids"),
        (ranking("[3], [1]"), "ids"),
        (ranking("3 > 1"), "ids"),
        (ranking("[3] > [1] >"), "ids"),
        (ranking("> [3] > [1]"), "ids"),
        (ranking("[3] >> [1]"), "ids"),
        (ranking("[ 3 ] > [1]"), "ids"),
        (ranking("[03] > [1]"), "ids"),
        (ranking("[0] > [1]"), "ids"),
        (ranking("[-1] > [1]"), "ids"),
        (ranking("[\u0663] > [1]"), "ids"),
        (ranking("[1234567] > [1]"), "ids"),
        (ranking("[3]"), "id_count"),
        (ranking("[3] > [1] > [2]"), "id_count"),
        (ranking("[3] > [3]"), "id_twice"),
        (ranking("[4] > [1]"), "id_range"),
    ],
)
def test_malformed_rankings(text: str, reason: str) -> None:
    assert parse_ranking(text, candidates=3, wanted=2) == Malformed(reason)


PIECES = st.sampled_from([*TAGS, "x", " ", "\n", CALL, "[1]", "[2]", ">", '"', "{", "}", "\\", "<"])
TEXTS = st.lists(PIECES, max_size=12).map("".join) | st.text()
WRAPPED = st.builds(turn, TEXTS) | st.builds(ranking, TEXTS) | st.builds(said, TEXTS, TEXTS) | TEXTS


@given(WRAPPED, st.sampled_from(list(GRAMMARS.values())))
def test_a_turn_is_an_action_or_a_reason(text: str, grammar: Grammar) -> None:
    action = parse_turn(text, grammar)
    assert sum(text.count(tag) for tag in TAGS) == 4 or action == Malformed("blocks")
    if isinstance(action, Answer):
        assert action.text == text[slice(*action.answer_at)].strip() != ""
    elif isinstance(action, Search):
        assert action.query == action.query.strip() != ""
    else:
        assert re.fullmatch("[a-z_]+", action.reason)


@given(WRAPPED, st.integers(1, 4), st.integers(1, 4))
def test_a_ranking_is_never_out_of_range(text: str, candidates: int, wanted: int) -> None:
    parsed = parse_ranking(text, candidates=candidates, wanted=wanted)
    if isinstance(parsed, Ranking):
        assert len(set(parsed.positions)) == len(parsed.positions) == wanted
        assert set(parsed.positions) <= set(range(candidates))


@given(st.integers(1, 9), st.data())
def test_every_ranking_that_is_asked_for_can_be_said(candidates: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(candidates)))
    text = ranking(" > ".join(f"[{position + 1}]" for position in order))
    assert parse_ranking(text, candidates=candidates, wanted=candidates) == Ranking(tuple(order))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])).filter(str.strip))
def test_every_query_can_be_said(query: str) -> None:
    for ascii_only in (True, False):
        call = {"name": "search", "arguments": {"query": query[:500]}}
        text = turn(json.dumps(call, ensure_ascii=ascii_only))
        action = parse_turn(text, REACT)
        holds_tag = any(tag in text.replace("tool_call", "", 2) for tag in TAGS[4:])
        if query[:500].strip() and not holds_tag:
            assert isinstance(action, Search)
            assert action.query == query[:500].strip()


def operations(run: Callable[[], object]) -> int:
    """Calls of Python and C functions that ``run`` makes, a garbage collector's left out."""
    count = 0

    def observe(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(observe)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.mark.parametrize(
    "piece", [*TAGS, "<reason></reason>", ranking(""), turn(""), said("x"), "<", "\n"]
)
def test_hostile_repetition_costs_a_constant_number_of_operations(piece: str) -> None:
    few, many = piece * 1000, piece * 100_000
    for grammar in GRAMMARS.values():
        assert operations(lambda: parse_turn(many, grammar)) == (  # noqa: B023
            operations(lambda: parse_turn(few, grammar))  # noqa: B023
        )
    parse: Callable[[str], object] = lambda text: parse_ranking(text, candidates=5, wanted=3)  # noqa: E731
    assert operations(lambda: parse(many)) == operations(lambda: parse(few))


def test_long_rankings_cost_in_proportion() -> None:
    def cost(count: int) -> int:
        text = ranking("[1]>" * count)
        return operations(lambda: parse_ranking(text, candidates=5, wanted=3))

    assert cost(20_000) <= 2 * cost(10_000)


def test_the_tag_pattern_cannot_scan_far() -> None:
    """A match is at most as wide as the longest tag, so one scan of a text is linear in it."""
    tree = re._parser.parse(formats._TAG.pattern)  # type: ignore[attr-defined]
    assert tree.getwidth()[1] == max(map(len, TAGS))
