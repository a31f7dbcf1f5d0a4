"""Joint training, the paper's page (Section 3.4, Algorithm 1).

Each round: sample questions, roll out G trajectories each with the current agent and the current
ranker, score, group, estimate advantages, update both policies on that same data, record.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from cosearch.core.credit import (
    CreditRules,
    Verdicts,
    agent_samples,
    assign_credit,
    ranker_samples,
)
from cosearch.core.protocols import Engine, Judge, NotFinite
from cosearch.core.seeds import derive
from cosearch.core.types import Question, Trajectory
from cosearch.params.blocks import Guards
from cosearch.rollouts.collect import Play, collect
from cosearch.rollouts.policy import Policy, give_way
from cosearch.rollouts.resume import RunStore
from cosearch.rollouts.trained import Diverged
from cosearch.train.guards import divergence
from cosearch.train.learning import Prepared, learn, prepare
from cosearch.train.record import Round

Phase = Callable[[str], AbstractContextManager[None]]
"""Opens a context around a named part of a round, to time it."""


def untimed(name: str) -> AbstractContextManager[None]:
    """A phase that nobody times."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class LoopRules:
    """Sizes of the loop. An update takes ``update_questions * group_size`` samples of a role."""

    rounds: int
    questions: int
    update_questions: int
    group_size: int
    shard_questions: int
    dev_every: int
    seed: int
    importance_cap: float | None


def train(
    *,
    rules: LoopRules,
    credit: CreditRules,
    questions: Sequence[Question],
    play: Callable[[int], Play],
    policies: Mapping[str, Policy],
    learners: Sequence[str],
    engines: Mapping[str, Engine],
    evaluate: Callable[[], Mapping[str, float]],
    store: RunStore,
    report: Callable[[int, str, Mapping[str, float]], None],
    judge: Judge | None = None,
    guards: Guards | None = None,
    phase: Phase = untimed,
) -> Diverged | None:
    """Run the rounds that ``store`` does not hold yet; returns why they stopped early, if so.

    ``play(round)`` starts trajectories of that round; ``learners`` are the roles that are trained,
    in order; ``evaluate`` measures the current policies on development questions; ``judge`` pays
    the ranker where the rules ask for one; ``phase`` times the parts of a round. The round in which
    a run diverged is recorded without its state: ``store`` holds that of the round before.
    """
    first = store.resume(policies, learners)
    if first == 0:
        with phase("evaluate"):
            store.start(evaluate())
    for number in range(first, rules.rounds):
        report(number, "rollout", {})
        with phase("rollout"):
            trajectories = _roll_out(number, rules, questions, play(number), engines, store)
        report(number, "update", {})
        give_way(policies)
        with phase("score"):
            verdicts = assign_credit(trajectories, credit, judge)
        done, broken = _learn(number, rules, trajectories, verdicts, policies, learners, phase)
        due = (number + 1) % rules.dev_every == 0 or number + 1 == rules.rounds
        if due and broken is None:
            with phase("evaluate"):
                done = replace(done, dev=evaluate())
        metrics = done.metrics(credit)
        if broken is None and guards is not None:
            broken = divergence(_history(store, metrics), guards)
        if broken is not None:
            store.record(done, metrics)
            return Diverged(number + 1, broken)
        with phase("checkpoint"):
            store.save(done, metrics, policies, learners)
        report(number, "done", metrics)
    return None


def _learn(
    number: int,
    rules: LoopRules,
    trajectories: Sequence[Trajectory],
    verdicts: Verdicts,
    policies: Mapping[str, Policy],
    learners: Sequence[str],
    phase: Phase,
) -> tuple[Round, str | None]:
    """Update every learning role on the round's samples; with the reason if one could not be.

    All old log-probabilities are measured before the first update: roles may share their weights.
    """
    samples = {
        "agent": agent_samples(trajectories, verdicts),
        "ranker": ranker_samples(trajectories, verdicts),
    }
    prepared: dict[str, Prepared] = {}
    updates: dict[str, list[Any]] = {}
    for role in learners:
        with phase(f"update_{role}"):
            prepared[role] = prepare(policies[role], samples[role], rules.importance_cap)
    broken = None
    for role in learners:
        try:
            with phase(f"update_{role}"):
                updates[role] = learn(
                    policies[role],
                    prepared[role].samples,
                    per_update=rules.update_questions * rules.group_size,
                    seed=derive(rules.seed, "update", number, role),
                )
        except NotFinite as error:
            broken = f"{role}: {error.reason} in round {number + 1}"
            break
    return Round(number, trajectories, verdicts, prepared, updates, {}), broken


def _history(store: RunStore, metrics: Mapping[str, float]) -> list[Mapping[str, float]]:
    """Metrics of the rounds up to this one; a run killed while it stopped left this one's too."""
    return [*(row for row in store.metrics() if row["round"] < metrics["round"]), metrics]


def _roll_out(
    number: int,
    rules: LoopRules,
    questions: Sequence[Question],
    play: Play,
    engines: Mapping[str, Engine],
    store: RunStore,
) -> list[Trajectory]:
    batch = draw_questions(questions, number, rules.questions, rules.seed)
    shards = collect(
        play,
        batch,
        engines,
        samples=rules.group_size,
        shard_questions=rules.shard_questions,
        kept=store.shards(number),
    )
    return [trajectory for shard in shards for trajectory in shard]


def draw_questions(
    questions: Sequence[Question], number: int, count: int, seed: int
) -> list[Question]:
    """The questions of round ``number``: epochs of seeded permutations, cut into rounds."""
    if not questions:
        raise ValueError("there are no training questions")
    stream = _stream(questions, seed, first=number * count // len(questions))
    skip = number * count % len(questions)
    return [next(stream) for _ in range(skip + count)][skip:]


def _stream(questions: Sequence[Question], seed: int, *, first: int) -> Iterator[Question]:
    epoch = first
    while True:
        order = list(range(len(questions)))
        random.Random(derive(seed, "order", epoch)).shuffle(order)
        yield from (questions[index] for index in order)
        epoch += 1
