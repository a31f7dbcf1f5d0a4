"""Joint training, the paper's page (Section 3.4, Algorithm 1).

Each round: sample questions, roll out G trajectories each with the current agent and the current
ranker, score, group, estimate advantages, update both policies on that same data, record.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cosearch.core.credit import CreditRules, agent_samples, assign_credit, ranker_samples
from cosearch.core.protocols import Engine
from cosearch.core.seeds import derive
from cosearch.core.types import Question, Trajectory
from cosearch.train.collect import Play, collect
from cosearch.train.policy import Policy, learn, prepare
from cosearch.train.record import Round
from cosearch.train.resume import RunStore


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
) -> None:
    """Run the rounds that ``store`` does not hold yet.

    ``play(round)`` starts trajectories of that round; ``learners`` are the roles that are trained,
    in order; ``evaluate`` measures the current policies on development questions.
    """
    first = store.resume(policies, learners)
    if first == 0:
        store.start(evaluate())
    for number in range(first, rules.rounds):
        report(number, "rollout", {})
        trajectories = _roll_out(number, rules, questions, play(number), engines)
        report(number, "update", {})
        verdicts = assign_credit(trajectories, credit)
        samples = {
            "agent": agent_samples(trajectories, verdicts),
            "ranker": ranker_samples(trajectories, verdicts),
        }
        prepared = {
            role: prepare(policies[role], samples[role], rules.importance_cap) for role in learners
        }
        updates = {
            role: learn(
                policies[role],
                prepared[role].samples,
                per_update=rules.update_questions * rules.group_size,
                seed=derive(rules.seed, "update", number, role),
            )
            for role in learners
        }
        due = (number + 1) % rules.dev_every == 0 or number + 1 == rules.rounds
        done = Round(number, trajectories, verdicts, prepared, updates, evaluate() if due else {})
        metrics = done.metrics(credit)
        store.save(done, metrics, policies, learners)
        report(number, "done", metrics)


def _roll_out(
    number: int,
    rules: LoopRules,
    questions: Sequence[Question],
    play: Play,
    engines: Mapping[str, Engine],
) -> list[Trajectory]:
    batch = draw_questions(questions, number, rules.questions, rules.seed)
    shards = collect(
        play,
        batch,
        engines,
        samples=rules.group_size,
        shard_questions=rules.shard_questions,
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
