"""Direct Inference, CoT and RAG: one turn, the same record, no searching."""

from dataclasses import replace
from typing import Any

import pytest

from cosearch.core.types import SpanKind, Terminal, Trajectory
from cosearch.methods.oneshot import cot, direct, lenient_answer, rag
from tests.core.builders import (
    CODEC,
    PROMPTING,
    REACT,
    RETRIEVE,
    Table,
    agent_rules,
    answer_turn,
    question,
    ranker_stage,
    ranking_turn,
    search_turn,
)

STAGES = (RETRIEVE,)
METHODS = pytest.mark.parametrize("method", [direct, cot, rag])


def play(method: Any, reply: str, *, table: Table | None = None, **changes: Any) -> Trajectory:
    table = table or Table(lambda *_: reply)
    stages = changes.pop("stages", STAGES)
    asked = question(text="Where lies Oslo")
    (played,) = table.play(method(asked, 0, agent_rules(**changes), stages, 0))
    return played


def prompt_of(played: Trajectory) -> str:
    (span,) = (s for s in played.spans if s.kind is SpanKind.PROMPT)
    return CODEC.decode(played.ids[span.start : span.end])


@METHODS
def test_one_turn_answers(method: Any) -> None:
    table = Table(lambda *_: answer_turn("Norway"))
    played = play(method, "", table=table)
    assert (played.terminal, played.answer) == (Terminal.ANSWERED, "Norway")
    assert len(table.agent.requests) == len(played.turns) == 1
    prompt = played.spans[0].end
    assert played.ids[:prompt] == table.agent.requests[0].prompt_ids
    assert played.loss_mask == (0,) * prompt + (1,) * (len(played.ids) - prompt)


@pytest.mark.parametrize("method", [direct, cot])
def test_from_memory_the_question_stands_alone_and_no_retriever_is_asked(method: Any) -> None:
    table = Table(lambda *_: answer_turn("Norway"))
    played = play(method, "", table=table)
    assert prompt_of(played) == "<|user|>Where lies Oslo<|end|><|assistant|>"
    assert played.calls == ()
    assert table.retriever.requests == []


def test_rag_retrieves_once_with_the_question() -> None:
    table = Table(lambda *_: answer_turn("Norway"))
    played = play(rag, "", table=table)
    assert [(r.query, r.n) for r in table.retriever.requests] == [("Where lies Oslo", 5)]
    assert prompt_of(played) == (
        "<|user|>Where lies Oslo\nTown 2 [1] Oslo lies here\nTown 0 [2] Rome lies here\n"
        "Town 1 [3] Paris lies here\n<|end|><|assistant|>"
    )
    (call,) = played.calls
    assert (call.query, call.turn, call.dropped_documents) == ("Where lies Oslo", 0, 0)


def test_rag_can_be_ranked() -> None:
    table = Table(lambda *_: answer_turn("x"), lambda *_: ranking_turn("[3] > [1] > [2]"))
    played = play(rag, "", table=table, stages=(RETRIEVE, ranker_stage()))
    assert "Town 1 [1] Paris" in prompt_of(played)


def test_rag_documents_over_budget_are_dropped_from_the_tail() -> None:
    played = play(rag, answer_turn("x"), max_observation_tokens=60)
    assert played.calls[0].dropped_documents == 1
    assert "[2] Rome lies here\n" in prompt_of(played)
    assert "[3]" not in prompt_of(played)
    bare = play(rag, answer_turn("x"), max_observation_tokens=0)
    assert bare.calls[0].dropped_documents == 3


@METHODS
@pytest.mark.parametrize(
    ("reply", "terminal", "fault"),
    [
        (search_turn("Oslo"), Terminal.MALFORMED, "search_not_allowed"),
        ("Norway<|end|>", Terminal.MALFORMED, "blocks"),
        ("<reason>so", Terminal.TOKEN_BUDGET, None),
        (search_turn("Oslo").removesuffix("<|end|>"), Terminal.TOKEN_BUDGET, None),
    ],
)
def test_anything_but_an_answer_fails(
    method: Any, reply: str, terminal: Terminal, fault: str | None
) -> None:
    played = play(method, reply)
    assert (played.terminal, played.fault, played.answer) == (terminal, fault, None)


@METHODS
def test_the_response_budget_bounds_the_turn(method: Any) -> None:
    played = play(method, answer_turn("Norway"), max_response_tokens=4)
    assert (sum(played.loss_mask), played.terminal) == (4, Terminal.TOKEN_BUDGET)


@METHODS
def test_a_question_over_the_prompt_budget_is_refused(method: Any) -> None:
    with pytest.raises(ValueError, match="question q1 of nq needs a prompt of"):
        play(method, answer_turn("x"), max_prompt_tokens=10)


def test_cot_asks_to_reason_step_by_step() -> None:
    paper = replace(PROMPTING, templates="paper")

    def prompt(method: Any) -> str:
        return prompt_of(play(method, answer_turn("x"), prompting=paper, max_prompt_tokens=5000))

    assert "step by step" in prompt(cot)
    assert "step by step" not in prompt(direct)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Let me think.\nIt is Oslo.\n \n", "It is Oslo."),
        ("Oslo", "Oslo"),
        ("<answer>Oslo</answer>", "Oslo"),
        ("<answer>Bern</answer> no, <answer> Oslo </answer> indeed", "Oslo"),
        ("so <answer>Oslo</answer> <answer>", "Oslo"),
        ("<answer>Bern\nOslo", "Oslo"),
        ("It is told.\n<answer>Oslo", "Oslo"),
        ("<answer> </answer>\nOslo", "Oslo"),
        ("Bern</answer>\nOslo", "Oslo"),
        ("", None),
        (" \n ", None),
    ],
)
def test_a_lenient_answer(text: str, answer: str | None) -> None:
    assert lenient_answer(text, REACT) == answer


@METHODS
def test_leniency_reads_malformed_turns_alone(method: Any) -> None:
    def read(reply: str) -> tuple[Terminal, str | None, str | None]:
        played = play(method, reply, lenient_answer=True)
        assert played.turns == (reply.removesuffix("<|end|>"),)
        return played.terminal, played.answer, played.fault

    assert read(answer_turn("Norway")) == (Terminal.ANSWERED, "Norway", None)
    assert read("So it is\nNorway<|end|>") == (Terminal.ANSWERED, "Norway", None)
    assert read("So it is\nNorway") == (Terminal.TOKEN_BUDGET, None, None)
    assert read("<|end|>") == (Terminal.MALFORMED, None, "blocks")
    assert read(search_turn("Oslo")) == (Terminal.MALFORMED, None, "search_not_allowed")
