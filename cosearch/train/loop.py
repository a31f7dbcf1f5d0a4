"""Joint training on one page (Section 3.4, Algorithm 1).

Each round: draw questions, roll out G trajectories each with the current agent and the current
ranker, score, group, estimate advantages, update both policies on that same data, record.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cosearch.core.credit import (
    CreditRules,
    Verdicts,
    agent_samples,
    assign_credit,
    ranker_samples,
)
from cosearch.core.protocols import Engine, NotFinite, RankingJudge
from cosearch.core.seeds import derive
from cosearch.core.types import Question, Trajectory
from cosearch.params.blocks import Guards
from cosearch.rollouts.collect import Play, collect
from cosearch.rollouts.policy import Policy, give_way, hand_over
from cosearch.rollouts.resume import RunStore
from cosearch.rollouts.trained import Diverged
from cosearch.train.epochs import places_of_round
from cosearch.train.guards import divergence
from cosearch.train.learning import Prepared, learn, prepare
from cosearch.train.observer import Observer
from cosearch.train.record import Round


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


@dataclass(frozen=True, slots=True)
class JointRun:
    """What a joint training works with: rules, questions, policies and engines, and its store."""

    rules: LoopRules
    credit: CreditRules
    guards: Guards
    questions: Sequence[Question]
    play: Callable[[int], Play]
    """Round number -> what starts a trajectory of that round."""
    policies: Mapping[str, Policy]
    """Policies by role."""
    learners: Sequence[str]
    """The roles that are trained, in order."""
    engines: Mapping[str, Engine]
    judge: RankingJudge | None
    """Pays the ranker where ``credit`` asks for a judge."""
    evaluate: Callable[[], Mapping[str, float]]
    """Measures the current policies on development questions."""
    store: RunStore


def train(run: JointRun, observer: Observer) -> Diverged | None:
    """Run the rounds that the store does not hold yet; returns why they stopped early, if so.

    The round in which a run diverged is recorded without its state, and the policies go back to
    that of the round before.
    """
    first = run.store.resume(run.policies, run.learners)
    if first == 0:
        with observer.phase("evaluate"):
            run.store.start(run.evaluate(), run.policies, run.learners)
    for number in range(first, run.rules.rounds):
        observer.report(number, "rollout", {})
        with observer.phase("rollout"):
            trajectories = roll_out_round(run, number)
        observer.report(number, "update", {})
        give_way(run.policies)
        with observer.phase("score"):
            verdicts = assign_credit(trajectories, run.credit, run.judge)
        done, broken = update_policies(run, number, trajectories, verdicts, observer)
        if broken is None:
            with observer.phase("hand_over"):
                observer.moved(hand_over(run.policies))
            if _is_evaluated(run.rules, number):
                with observer.phase("evaluate"):
                    done = replace(done, dev=run.evaluate())
        metrics = done.metrics(run.credit)
        broken = broken or divergence(_history(run.store, metrics), run.guards)
        if broken is not None:
            run.store.record(done, metrics)
            go_back(run, number, observer)
            return Diverged(number + 1, broken)
        with observer.phase("checkpoint"):
            last = number + 1 == run.rules.rounds
            run.store.save(done, metrics, run.policies, run.learners, last=last)
        observer.report(number, "done", metrics)
    return None


def go_back(run: JointRun, number: int, observer: Observer) -> None:
    """Bring the policies to their state before round ``number`` (from 0): the last one that the
    store holds, and from there the updates once more, on the kept trajectories."""
    for earlier in range(run.store.resume(run.policies, run.learners), number):
        trajectories = roll_out_round(run, earlier)
        give_way(run.policies)
        verdicts = assign_credit(trajectories, run.credit, run.judge)
        update_policies(run, earlier, trajectories, verdicts, observer)


def roll_out_round(run: JointRun, number: int) -> list[Trajectory]:
    """G trajectories of every question of round ``number``, those of a question side by side."""
    rules = run.rules
    shards = collect(
        run.play(number),
        draw_questions(run.questions, number, rules.questions, rules.seed),
        run.engines,
        samples=rules.group_size,
        shard_questions=rules.shard_questions,
        kept=run.store.shards(number),
    )
    return [trajectory for shard in shards for trajectory in shard]


def update_policies(
    run: JointRun,
    number: int,
    trajectories: Sequence[Trajectory],
    verdicts: Verdicts,
    observer: Observer,
) -> tuple[Round, str | None]:
    """Update every learning role on the round's samples; returns the round, and the reason if an
    update failed.

    All old log-probabilities are measured before the first update: roles may share their weights.
    """
    samples = {
        "agent": agent_samples(trajectories, verdicts),
        "ranker": ranker_samples(trajectories, verdicts),
    }
    rules, broken = run.rules, None
    prepared: dict[str, Prepared] = {}
    updates: dict[str, list[Any]] = {}
    for role in run.learners:
        with observer.phase(f"update_{role}"):
            prepared[role] = prepare(run.policies[role], samples[role], rules.importance_cap)
    for role in run.learners:
        try:
            with observer.phase(f"update_{role}"):
                updates[role] = learn(
                    run.policies[role],
                    prepared[role].samples,
                    per_update=rules.update_questions * rules.group_size,
                    seed=derive(rules.seed, "update", number, role),
                )
        except NotFinite as error:
            broken = f"{role}: {error.reason} in round {number + 1}"
            break
    return Round(number, trajectories, verdicts, prepared, updates, {}), broken


def _is_evaluated(rules: LoopRules, number: int) -> bool:
    """Whether the policies are measured after round ``number``; after the last one they are."""
    return (number + 1) % rules.dev_every == 0 or number + 1 == rules.rounds


def _history(store: RunStore, metrics: Mapping[str, float]) -> list[Mapping[str, float]]:
    """Metrics of the rounds up to this one. A run that was killed while it stopped has recorded
    this round already, so the store's row of it is left out."""
    return [*(row for row in store.metrics() if row["round"] < metrics["round"]), metrics]


def draw_questions(
    questions: Sequence[Question], number: int, count: int, seed: int
) -> list[Question]:
    """The questions of round ``number``. Raises ValueError where there are fewer than a round
    plays."""
    if count > len(questions):
        raise ValueError(
            f"train.questions is {count}, there are {len(questions)} training questions; lower it"
        )
    return [questions[place] for place in places_of_round(len(questions), number, count, seed)]
