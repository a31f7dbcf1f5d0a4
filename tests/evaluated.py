"""Small real rollouts and results of systems, made by a rule instead of sampled by a model.

The fixtures ``rollouts`` and ``results`` are there for every test (``tests/conftest.py``).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from cosearch.core.relevance import RelevanceRule
from cosearch.core.rewards import RewardRules
from cosearch.core.types import (
    Candidate,
    Generation,
    Passage,
    Question,
    RankerOutput,
    Sampling,
    SearchCall,
    Terminal,
    Trajectory,
)
from cosearch.params.rows import Comparison, Statistics, TableBlock, TableRow
from cosearch.scores.metrics import calls_frame, predictions_frame
from cosearch.statistics.results import Result, ResultSet
from cosearch.statistics.scope import Scope

SAMPLING = Sampling(temperature=0.0, top_p=1.0, top_k=-1, max_tokens=8)
RELEVANCE = RelevanceRule(match="tokens", strip_marks=False, min_gold_chars=0)
REWARD = RewardRules(
    format_penalty=0.2,
    gamma=0.5,
    gate_inclusive=False,
    hit_cutoffs=(1, 2, 3),
    ranking_metric="hit",
    use_relevance=True,
    use_main=True,
    main_threshold=None,
    exclude_malformed_trajectories=True,
    yes_no_rule="bag",
    answer_metric="f1",
    source="composite",
)
KINDS = {
    "nq": "single",
    "triviaqa": "single",
    "popqa": "single",
    "hotpotqa": "multi",
    "2wikimultihopqa": "multi",
    "musique": "multi",
    "bamboogle": "multi",
}
LABELS = {
    "direct": "Direct Inference",
    "retrieval_only": "Retrieval Only",
    "fixed_ranker": "Fixed Ranker",
    "cosearch": "CoSearch",
    "oracle": "Oracle",
    "start": "Untrained agent and ranker",
}
KEY = {"corpus": "c0", "retriever": "r0", "top_k": 3, "metric_rule": "bag"}
STATISTICS = Statistics(level=0.95, draws=400, seed=5, min_seeds=1, power=0.8, min_questions=20)


def make_question(dataset: str, number: int, golds: Sequence[str] = ("red fox",)) -> Question:
    return Question(f"{dataset}-{number}", dataset, f"Who is {number}?", tuple(golds))


def make_call(
    texts: Sequence[str], ranking: Sequence[int], *, turn: int = 0, fault: str | None = None
) -> SearchCall:
    """A search whose candidates are ``texts`` in retriever order; the ranker writes two tokens."""
    candidates = tuple(
        Candidate(Passage(f"p{at}", f"title {at}", text), 1.0 - at / 10)
        for at, text in enumerate(texts)
    )
    generation = Generation((7, 8), (-0.1, -0.1), True, SAMPLING, 0)
    output = RankerOutput((1, 2, 3), generation, "text", fault, 0)
    return SearchCall(turn, "who", candidates, tuple(ranking), output)


def make_trajectory(
    question: Question,
    answer: str | None,
    *,
    calls: Sequence[SearchCall] = (),
    terminal: Terminal = Terminal.ANSWERED,
) -> Trajectory:
    """Five tokens, three of them sampled."""
    return Trajectory(
        question=question,
        sample=0,
        ids=(1, 2, 3, 4, 5),
        loss_mask=(0, 0, 1, 1, 1),
        logprobs=(0.0, 0.0, -0.1, -0.1, -0.1),
        spans=(),
        turns=("turn",),
        calls=tuple(calls),
        answer=answer,
        terminal=terminal,
        fault=None if terminal is Terminal.ANSWERED else "blocks",
        sampling=SAMPLING,
        weights=0,
        notices=0,
    )


def make_result(
    system: str,
    *,
    seed: int = 0,
    skill: float = 0.5,
    questions: int = 20,
    reward: RewardRules = REWARD,
    **key: Any,
) -> Result:
    """A system that answers a question fully or half right with probability ``skill`` each.

    The luck of a question is shared by all systems, so a higher skill is never worse.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    trajectories = []
    for dataset in KINDS:
        for number, luck in enumerate(rng.random(questions)):
            answer = "red fox" if luck < skill else "red dog" if luck < skill + 0.2 else "cat"
            texts = ["blue", "green", "red fox" if luck < 0.8 else "grey", "black"]
            ranking = (2, 0, 1) if luck < skill else (0, 1, 3)
            terminal = Terminal.MALFORMED if luck > 0.95 else Terminal.ANSWERED
            calls = [make_call(texts, ranking, turn=turn) for turn in range(1 + number % 2)]
            question = make_question(dataset, number)
            trajectories.append(make_trajectory(question, answer, calls=calls, terminal=terminal))
    return Result(
        system,
        seed,
        {**KEY, **key},
        predictions_frame(trajectories, system=system, seed=seed, kinds=KINDS, reward_rules=reward),
        calls_frame(
            trajectories, system=system, seed=seed, relevance=RELEVANCE, reward_rules=reward
        ),
    )


def make_scope(profile: str = "tiny", average: str = "macro", **changes: Any) -> Scope:
    given: dict[str, Any] = {"rule": "bag", "kinds": KINDS, "labels": LABELS, **changes}
    return Scope(profile=profile, average=average, **given)


def make_set(
    results: Sequence[Result],
    *,
    scope: Scope | None = None,
    status: Mapping[str, str] | None = None,
) -> ResultSet:
    return ResultSet(results, scope or make_scope(), status or {}, STATISTICS)


def make_block(
    backbone: str | None = None,
    name: str = "large",
    labels: Mapping[str, str] = LABELS,
    varying: Sequence[str] = (),
) -> TableBlock:
    rows = tuple(TableRow(system=system, label=label) for system, label in labels.items())
    return TableBlock(name=name, backbone=backbone, varying=tuple(varying), rows=rows)


def make_comparison(left: str, right: str, metric: str = "f1") -> Comparison:
    return Comparison(left=left, right=right, metric=metric)


COMPARISONS = [
    make_comparison("cosearch", "start", "f1"),
    make_comparison("cosearch", "start", "hit_3"),
    make_comparison("oracle", "retrieval_only", "em"),
    make_comparison("cosearch", "fixed_ranker", "f1"),
]


class Rollouts:
    """The builders and constants above, for tests to use as ``rollouts.result(...)``."""

    sampling = SAMPLING
    relevance = RELEVANCE
    reward = REWARD
    kinds = KINDS
    labels = LABELS
    statistics = STATISTICS
    question = staticmethod(make_question)
    call = staticmethod(make_call)
    trajectory = staticmethod(make_trajectory)
    result: Callable[..., Result] = staticmethod(make_result)
    scope: Callable[..., Scope] = staticmethod(make_scope)
    set_of: Callable[..., ResultSet] = staticmethod(make_set)
    block: Callable[..., TableBlock] = staticmethod(make_block)
    comparison: Callable[..., Comparison] = staticmethod(make_comparison)


@pytest.fixture(scope="session")
def rollouts() -> type[Rollouts]:
    return Rollouts


@pytest.fixture(scope="session")
def results() -> list[Result]:
    """Six systems; CoSearch and its start with three seeds."""
    skills = {"direct": 0.1, "retrieval_only": 0.4, "fixed_ranker": 0.45, "oracle": 0.75}
    single = [make_result(system, skill=skill) for system, skill in skills.items()]
    several = [
        make_result(system, seed=seed, skill=skill)
        for system, skill in (("cosearch", 0.6), ("start", 0.3))
        for seed in range(3)
    ]
    return [*single, *several]
