"""Every reader of text keeps its promises on hostile text, and takes linear time."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosearch.core.formats import GRAMMARS, MAX_CALL_CHARS, TAGS, Malformed, parse_turn
from tests.fuzz.targets import ROOT, TARGETS, attack, corpus, mutated

PIECES = (
    *TAGS,
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|user|>", "<tool_response>", "<REASON>"),
    *('{"name": "search", "arguments": {"query": "', '"}}', "[1]", "[2] > [1]", " > ", "[0]"),
    *("[" * 50, '{"a":' * 20, "9" * 200, "\\ud800", "\ud800", "\udfff", "\u202e", "\u0000", "\x1b"),
    *("\n", "\t", '"', ",", ":", " ", "a", "é", "́", "ﬁ", "🙂", "question", "answer", "id\ttext"),
)
TEXTS = st.one_of(
    st.text(alphabet=st.characters(), max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=14).map("".join),
)
EVERY = pytest.mark.parametrize("name", TARGETS)
CALM = [HealthCheck.too_slow, HealthCheck.data_too_large]


@EVERY
@settings(max_examples=2_000, suppress_health_check=CALM)
@given(text=TEXTS)
def test_no_text_breaks_a_promise(name: str, text: str) -> None:
    TARGETS[name](text)


@pytest.mark.extended
@EVERY
@settings(max_examples=100_000, suppress_health_check=CALM)
@given(text=TEXTS)
def test_no_text_of_many_breaks_a_promise(name: str, text: str) -> None:
    TARGETS[name](text)


@EVERY
def test_the_kept_inputs_and_their_mutants_break_no_promise(name: str) -> None:
    inputs = corpus()
    for data in inputs:
        attack(name, data)
    for seed in range(1_000):
        attack(name, mutated(seed, inputs))


def lines_run(check: Callable[[str], None], text: str) -> int:
    """How many lines of our code ran, called functions included."""
    count = 0
    ours = str(ROOT / "cosearch")

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(ours):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        check(text)
    finally:
        sys.settrace(before)
    return count


LONG = (*PIECES, "<reason>a</reason><rerank>" + "[1] > " * 9, "[1] a: b [2] c: d ")


@pytest.mark.parametrize("name", sorted(set(TARGETS) - {"loaders"}))
@pytest.mark.parametrize("piece", LONG, ids=ascii)
def test_work_grows_no_faster_than_the_text(name: str, piece: str) -> None:
    check = TARGETS[name]
    check(piece)  # what is loaded once is no work of the text
    small, large = (lines_run(check, piece * times) for times in (60, 240))
    assert large <= 5 * small + 200


@pytest.mark.parametrize("name", sorted(set(TARGETS) - {"loaders"}))
def test_a_word_of_a_megabyte_is_read_or_refused(name: str) -> None:
    TARGETS[name]("w" * (1 << 20))


@pytest.mark.parametrize("call", ["[" * (MAX_CALL_CHARS + 1), "9" * (MAX_CALL_CHARS + 1)])
def test_a_call_above_the_limit_is_refused_before_it_is_parsed(call: str) -> None:
    turn = f"<reason>a</reason><tool_call>{call}</tool_call>"
    assert parse_turn(turn, GRAMMARS["react"]) == Malformed("call_length")


@pytest.mark.parametrize("text", ["w" * (1 << 20), "[" * 100_000], ids=["long", "deep"])
def test_a_file_above_a_limit_is_refused_in_one_line(text: str) -> None:
    TARGETS["loaders"](text)
