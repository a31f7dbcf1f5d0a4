"""ZeroSearch: a model plays the search engine, and the noise in it grows."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.lockstep import run_lockstep
from cosearch.core.observe import PendingSearch, needs_gold, run_stages
from cosearch.core.prompts import load_template
from cosearch.core.rollout import roll_out
from cosearch.core.types import SpanKind, Terminal
from cosearch.methods.zerosearch import SimulatorStage, noise_share, parse_documents
from tests.core.builders import (
    CODEC,
    ROOT,
    SAMPLING,
    Table,
    agent_rules,
    answer_turn,
    in_turn,
    question,
    search_turn,
)

WRITTEN = "[1] Towns: Many towns lie here. [2] Rivers: One river. [3] No title here<|end|>"
VECTORS = ROOT.parent / "shared" / "siblings" / "test_vectors.json"


def simulator(**changes: Any) -> SimulatorStage:
    settings: dict[str, Any] = {
        "top_k": 3,
        "codec": CODEC,
        "sampling": SAMPLING,
        "templates": "tiny",
        "max_prompt_tokens": 100,
        "noise": 0.5,
    }
    return SimulatorStage(**settings | changes)


def run(reply: str = WRITTEN, *, seed: int = 5, **changes: Any) -> tuple[PendingSearch, Table]:
    table = Table(in_turn(), auxiliary=lambda *_: reply)
    start = PendingSearch(question("Oslo", "Christiania"), "capital", turn=2, seed=seed)
    engines = {"simulator": table.auxiliary}
    (search,) = run_lockstep([run_stages(start, [simulator(**changes)])], engines)
    return search, table


def test_the_documents_written_are_the_candidates() -> None:
    search, table = run()
    assert [(p.title, p.text) for p in search.passages()] == [
        ("Towns", "Many towns lie here."),
        ("Rivers", "One river."),
        ("", "No title here"),
    ]
    assert [c.score for c in search.candidates] == [0.0, -1.0, -2.0]
    assert all(c.passage.id.startswith("simulated/") for c in search.candidates)
    assert search.ranking == (0, 1, 2)
    (request,) = table.auxiliary.requests
    assert (request.role, request.sampling) == ("simulator", SAMPLING)


def test_the_simulator_is_told_query_question_and_first_gold() -> None:
    _, useful = run(noise=-1.0)
    _, noisy = run(noise=1.0)
    assert CODEC.decode(useful.auxiliary.requests[0].prompt_ids) == (
        "<|user|>capital of Norway | capital | Oslo : found<|end|><|assistant|>"
    )
    assert CODEC.decode(noisy.auxiliary.requests[0].prompt_ids) == (
        "<|user|>capital of Norway | capital | Oslo : not found<|end|><|assistant|>"
    )


@pytest.mark.parametrize("templates", ["worked", "paper"])
def test_the_written_templates_tell_it_all(templates: str) -> None:
    for noise in (-1.0, 1.0):
        _, table = run(templates=templates, noise=noise, max_prompt_tokens=5000)
        prompt = CODEC.decode(table.auxiliary.requests[0].prompt_ids).rpartition("<|user|>")[2]
        for part in ("3 documents", "Query: capital\n", "capital of Norway", ": Oslo"):
            assert part in prompt


@pytest.mark.parametrize(("template", "helps"), [("useful", True), ("noisy", False)])
def test_the_worked_example_is_of_the_form_it_asks_for(template: str, helps: bool) -> None:
    blocks = load_template("worked", f"simulate_{template}")
    (example,) = (text for role, text in blocks if role == "assistant")
    passages = parse_documents(example, at_most=5)
    assert [bool(passage.title) for passage in passages] == [True, True]
    assert all(25 <= len(passage.text.split()) <= 35 for passage in passages)
    assert ("1874" in example) is helps


def kinds(noise: float, count: int = 200) -> Counter[bool]:
    prompts = [
        CODEC.decode(run(noise=noise, seed=seed)[1].auxiliary.requests[0].prompt_ids)
        for seed in range(count)
    ]
    return Counter(": not found" in prompt for prompt in prompts)


def test_the_share_of_noise_is_that_of_the_draws() -> None:
    assert kinds(1.0) == {True: 200}
    assert kinds(0.0) == {False: 200}
    assert kinds(0.25)[True] == 55


def test_a_draw_is_of_its_trajectory_and_turn() -> None:
    def prompts(seed: int, turn: int) -> tuple[int, ...]:
        start = PendingSearch(question(), "capital", turn=turn, seed=seed)
        return tuple(simulator().prompt(start))

    assert prompts(1, 0) == prompts(1, 0)
    assert len({prompts(1, turn) for turn in range(20)}) == 2
    assert len({prompts(seed, 0) for seed in range(20)}) == 2


def test_a_prompt_over_budget_is_refused() -> None:
    with pytest.raises(ValueError, match=r"query 'capital' needs a prompt of .* simulator is 9"):
        run(max_prompt_tokens=9)


def test_it_declares_that_it_holds_the_golds() -> None:
    assert needs_gold([simulator()])


def test_the_gold_never_enters_the_agents_prompts() -> None:
    gold = "Zembla"
    table = Table(
        in_turn(search_turn("x"), search_turn("y"), answer_turn("z")), auxiliary=lambda *_: WRITTEN
    )
    asked = question(gold)
    (played,) = table.play(roll_out(asked, 0, agent_rules(), (simulator(),), 0))
    assert played.terminal is Terminal.ANSWERED
    assert len(table.agent.requests) == 3
    assert not any(gold in CODEC.decode(r.prompt_ids) for r in table.agent.requests)
    assert gold not in CODEC.decode(played.ids)
    assert all(gold in CODEC.decode(r.prompt_ids) for r in table.auxiliary.requests)
    assert len(table.auxiliary.requests) == 2
    assert table.retriever.requests == []
    for span in played.spans:
        if span.kind is SpanKind.OBSERVATION:
            assert not any(played.loss_mask[span.start : span.end])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (" \n", []),
        ("nothing of the form", [("", "nothing of the form")]),
        ("a: b", [("", "a: b")]),
        ("[2] A: b", [("", "[2] A: b")]),
        ("Sure!\n[1] A: b\n[2] C: d: e", [("A", "b"), ("C", "d: e")]),
        ("[1] A: b [1] says [3] so [2] C: d", [("A", "b [1] says [3] so"), ("C", "d")]),
        ("[1] A: b [2] C: d [3] E: f", [("A", "b"), ("C", "d")]),
        ("[1] A: b [2] C: d [3] E: f [4] G", [("A", "b"), ("C", "d")]),
        ("[1] [2] C: d", [("C", "d")]),
        ("[1] A: [2] : d", [("", "A:"), ("", "d")]),
        ("[1] A: b [2] A: b", [("A", "b")]),
        ("[\u0661] A: b", [("", "[\u0661] A: b")]),
    ],
)
def test_documents_of_a_completion(text: str, found: list[tuple[str, str]]) -> None:
    assert [(p.title, p.text) for p in parse_documents(text, at_most=2)] == found


@given(
    st.lists(st.sampled_from(["[1]", "[2]", "[3]", "[9]", "a", ":", " ", "\n"]), max_size=20).map(
        "".join
    ),
    st.integers(1, 3),
)
def test_documents_are_few_distinct_and_not_blank(text: str, at_most: int) -> None:
    passages = parse_documents(text, at_most=at_most)
    assert len({passage.id for passage in passages}) == len(passages) <= at_most
    assert all(passage.text.strip() for passage in passages)


def test_equal_texts_are_one_passage_and_others_are_not() -> None:
    first, second = parse_documents("[1] A: b [2] A: c", at_most=2)
    (again,) = parse_documents("[1] A: b", at_most=2)
    assert first == again
    assert first.id != second.id


@pytest.mark.parametrize(
    ("step", "share"),
    [(0, 0.0), (1, 0.001142), (50, 0.067831), (101, 0.16553), (202, 0.495463), (203, 0.5),
     (500, 0.5)],
)  # fmt: skip
def test_the_curriculum_of_the_paper(step: int, share: float) -> None:
    assert noise_share(step, 203, 0.0, 0.5, 4) == pytest.approx(share, abs=5e-7)


@pytest.mark.skipif(not VECTORS.is_file(), reason="needs the shared test vectors")
def test_the_curriculum_of_the_vectors() -> None:
    vector = json.loads(Path(VECTORS).read_text(encoding="utf-8"))["zerosearch_noise"]
    for step, share in vector["p"].items():
        numbers = (int(step), vector["total"], vector["start"], vector["end"], vector["base"])
        assert noise_share(*numbers) == pytest.approx(share, abs=5e-7)
