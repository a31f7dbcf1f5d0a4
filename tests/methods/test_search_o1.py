"""Search-o1: the agent reads notes, and its reasoning reaches the note-writer in short."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.observe import PendingSearch
from cosearch.core.prompts import load_template
from cosearch.core.rollout import roll_out
from cosearch.core.types import Note, SpanKind, Terminal, Trajectory
from cosearch.engines.policies.codec_hf import HfCodec
from cosearch.engines.scripted import CONTROLS, ScriptedRetriever
from cosearch.methods.bundle import METHODS
from cosearch.methods.search_o1 import GAP, GRAMMAR, NoteStage, abridge, first_reason
from cosearch.pretrain.words import CALL, CALL_END
from tests.core.builders import (
    CODEC,
    PROMPTING,
    RETRIEVE,
    ROOT,
    SAMPLING,
    Table,
    agent_rules,
    answer_turn,
    candidates,
    in_turn,
    question,
    search_turn,
)

NOTED = "<reason>Oslo is in Norway</reason><answer>x</answer><|end|>"


def note_stage(**changes: Any) -> NoteStage:
    settings: dict[str, Any] = {
        "codec": CODEC,
        "sampling": SAMPLING,
        "prompting": PROMPTING,
        "max_prompt_tokens": 1000,
    }
    return NoteStage(**settings | changes)


def play(
    *turns: str, reply: str = NOTED, passages: Any = None, **changes: Any
) -> tuple[Trajectory, Table]:
    table = Table(in_turn(*turns), auxiliary=lambda *_: reply)
    if passages is not None:
        table.retriever = ScriptedRetriever(passages)
    rules = agent_rules(dialogue=METHODS["search_o1"].dialogue, max_prompt_tokens=5000)
    stages = (RETRIEVE, note_stage(**changes))
    (played,) = table.play(roll_out(question(), 0, rules, stages, 0))
    return played, table


def observations(played: Trajectory) -> list[str]:
    return [
        CODEC.decode(played.ids[s.start : s.end])
        for s in played.spans
        if s.kind is SpanKind.OBSERVATION
    ]


def test_the_agent_reads_the_note_and_no_document() -> None:
    played, table = play(search_turn("Oslo"), answer_turn("Oslo"))
    assert observations(played) == ["<|user|>Oslo is in Norway<|end|><|assistant|>"]
    (call,), (request,) = played.calls, table.auxiliary.requests
    assert call.note is not None
    assert call.note.generation is not None
    assert call.note.prompt_ids == request.prompt_ids
    assert CODEC.decode(call.note.generation.ids) == NOTED
    assert (request.role, request.sampling) == ("refiner", SAMPLING)
    assert (played.terminal, len(call.candidates)) == (Terminal.ANSWERED, 5)


def test_the_note_is_not_trained_on() -> None:
    played, _ = play(search_turn("Oslo"), answer_turn("Oslo"))
    for span in played.spans:
        sampled = span.kind not in (SpanKind.PROMPT, SpanKind.OBSERVATION)
        assert set(played.loss_mask[span.start : span.end]) == {int(sampled)}


def test_the_tiny_prompt_looks_like_a_turn_of_the_agent() -> None:
    _, table = play(search_turn("Oslo"), answer_turn("Oslo"))
    assert CODEC.decode(table.auxiliary.requests[0].prompt_ids) == (
        "<|user|>capital of Norway<|end|><|assistant|>"
        '<reason>need</reason><tool_call>{"name": "search", "arguments": {"query": "Oslo"}}'
        "</tool_call><|end|><|user|>Town 2 [1] Oslo lies here\nTown 0 [2] Rome lies here\n"
        "Town 1 [3] Paris lies here\n<|end|><|assistant|>"
    )


@pytest.mark.parametrize("templates", ["worked", "paper"])
def test_the_refiner_is_told_all_it_needs(templates: str) -> None:
    _, table = play(
        search_turn("Oslo", reason="r1"),
        answer_turn("Oslo"),
        prompting=replace(PROMPTING, templates=templates),
        max_prompt_tokens=5000,
    )
    prompt = CODEC.decode(table.auxiliary.requests[0].prompt_ids)
    for part in ("capital of Norway", "<reason>r1</reason>", "Town 1 [3] Paris lies here\n"):
        assert part in prompt
    last = prompt.rpartition("<|user|>")[2]
    assert "ery: Oslo\n" in last


@pytest.mark.parametrize("reply", ["nothing<|end|>", "<|end|>", "<reason> </reason><|end|>", "x"])
def test_without_a_reason_block_nothing_helpful_was_found(reply: str) -> None:
    played, _ = play(search_turn("Oslo"), answer_turn("Oslo"), reply=reply)
    assert observations(played) == ["<|user|>not found .<|end|><|assistant|>"]


def test_a_repeated_query_gets_a_notice_and_no_call() -> None:
    played, table = play(search_turn("The Oslo"), search_turn("oslo!"), answer_turn("Oslo"))
    assert [call.note for call in played.calls][1] == Note((), None, "not found .")
    assert len(table.auxiliary.requests) == 1
    assert played.terminal is Terminal.ANSWERED


def test_where_nothing_is_found_nobody_is_asked() -> None:
    played, table = play(search_turn("Oslo"), answer_turn("Oslo"), passages=[])
    assert table.auxiliary.requests == []
    assert played.calls[0].note == Note((), None, "not found .")


def test_draws_depend_on_trajectory_and_turn() -> None:
    turns = (search_turn("Oslo"), search_turn("Rome"), answer_turn("Oslo"))
    seeds = [request.seed for request in play(*turns)[1].auxiliary.requests]
    assert len(set(seeds)) == 2
    assert seeds == [request.seed for request in play(*turns)[1].auxiliary.requests]


def test_documents_over_budget_are_dropped_but_never_all() -> None:
    turns = (search_turn("Oslo"), answer_turn("Oslo"))
    whole = len(play(*turns)[1].auxiliary.requests[0].prompt_ids)
    prompting = replace(PROMPTING, max_document_chars=len("Oslo lies"))
    played, table = play(*turns, max_prompt_tokens=whole - 1)
    assert played.calls[0].note is not None
    assert (played.calls[0].note.dropped_documents, played.calls[0].note.cuts) == (1, ())
    cut = play(*turns, prompting=prompting)[0].calls[0].note
    assert cut is not None
    assert (cut.dropped_documents, cut.cuts) == (0, ((0, 9), (1, 9), (2, 9)))
    prompt = CODEC.decode(table.auxiliary.requests[0].prompt_ids)
    assert "[2]" in prompt
    assert "[3]" not in prompt
    with pytest.raises(ValueError, match="max_prompt_tokens=20 of the notes leaves no room"):
        play(*turns, max_prompt_tokens=20)


def test_controls_in_notes_and_queries_stay_characters() -> None:
    hostile = f"<reason>{CONTROLS[2]}</reason>"
    played, table = play(
        search_turn("a\\u003c|end|\\u003e"), answer_turn("x"), reply=hostile.replace("|", "¦")
    )
    prompt = table.auxiliary.requests[0].prompt_ids
    assert "a<|end|>" in CODEC.decode(prompt)
    assert prompt.count(CONTROLS.index("<|end|>")) == 3
    assert observations(played) == ["<|user|><¦end¦><|end|><|assistant|>"]


STEP = "step {}"
SEARCHING = "<reason>r</reason><tool_call>q</tool_call>"


def test_abridged_reasoning_keeps_first_last_four_and_searches() -> None:
    turns = [STEP.format(number) for number in range(10)]
    turns[3] = SEARCHING
    assert abridge(turns, GRAMMAR).split("\n\n") == [
        "step 0", GAP, SEARCHING, GAP, "step 6", "step 7", "step 8", "step 9",
    ]  # fmt: skip


def test_blank_lines_part_the_steps_of_a_turn() -> None:
    text = "\n\n".join(STEP.format(number) for number in range(7))
    assert abridge([text], GRAMMAR).split("\n\n") == [
        "step 0", GAP, "step 3", "step 4", "step 5", "step 6",
    ]  # fmt: skip


def test_short_reasoning_is_kept_whole() -> None:
    assert abridge(["a", "b", "c"], GRAMMAR) == "a\n\nb\n\nc"
    assert abridge([], GRAMMAR) == abridge(["\n\n"], GRAMMAR) == ""


@given(st.lists(st.sampled_from(["thought", SEARCHING, "a\n\nb", ""]), max_size=12))
def test_no_search_is_ever_left_out_and_gaps_stand_alone(turns: list[str]) -> None:
    steps = abridge(turns, GRAMMAR).split("\n\n")
    assert steps.count(SEARCHING) == turns.count(SEARCHING)
    assert not any(left == right == GAP for left, right in pairwise(steps))


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("<reason> a </reason><reason>b</reason>", "a"),
        ("so <reason>a\nb</reason>", "a\nb"),
        ("<reason>a", ""),
        ("a</reason>", ""),
        ("</reason><reason>", ""),
        ("", ""),
    ],
)
def test_the_first_whole_reason_block(text: str, inside: str) -> None:
    assert first_reason(text) == inside


def test_the_worked_example_is_of_the_form_it_asks_for() -> None:
    blocks = load_template("worked", "notes")
    (example,) = (text for role, text in blocks if role == "assistant")
    assert first_reason(example) == "The bridge of Oldford was opened in 1874."


def test_the_shipped_agent_reads_its_own_call_in_the_tiny_prompt() -> None:
    codec = HfCodec(ROOT / "models/tiny/agent")
    search = PendingSearch(question(), "capital", 0, 5, candidates("Oslo"), (0,))
    ids, _ = note_stage(codec=codec).prompt(search)
    tokens = codec.tokenizer.convert_ids_to_tokens(ids)
    assert tokens.count(CALL) == tokens.count(CALL_END) == 1
    assert tokens[tokens.index("<reason>") : tokens.index(CALL)] == [
        "<reason>",
        "need",
        "</reason>",
    ]
