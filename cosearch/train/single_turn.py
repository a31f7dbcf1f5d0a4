"""Single-turn GRPO of the ranker on r_rel alone: the Fixed Ranker (Appendix; Table 2).

Every list (a retrieval query with its candidates) is ranked G times; the list is the group. There
is no agent, so there is no r_main: a well-formed ranking earns r_rel, any other -alpha.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cosearch.core.credit import CreditRules, Verdicts, assign_credit, ranker_samples
from cosearch.core.protocols import Engine
from cosearch.core.seeds import derive
from cosearch.core.types import Trajectory
from cosearch.rollouts.collect import Kept, collect
from cosearch.rollouts.pipelines import ModelRanker
from cosearch.rollouts.policy import Policy, give_way
from cosearch.rollouts.rank_list import RankingList, rank_list
from cosearch.rollouts.resume import RunStore
from cosearch.train.learning import learn, prepare
from cosearch.train.loop import Phase, untimed
from cosearch.train.record import Round


@dataclass(frozen=True, slots=True)
class ListRules:
    """``lists`` per round, ``group_size`` rankings each, ``per_update`` rankings an update."""

    rounds: int
    lists: int
    group_size: int
    per_update: int
    seed: int


def train_ranker(
    *,
    rules: ListRules,
    credit: CreditRules,
    lists: Sequence[RankingList],
    stage: ModelRanker,
    policy: Policy,
    engines: Mapping[str, Engine],
    store: RunStore,
    report: Callable[[int, str, Mapping[str, float]], None],
    phase: Phase = untimed,
) -> None:
    """Run the rounds that ``store`` does not hold yet; ``phase`` times the parts of a round."""
    credit = replace(credit, reward=replace(credit.reward, use_main=False, source="composite"))
    policies = {"ranker": policy}
    first = store.resume(policies, ["ranker"])
    if first == 0:
        store.start({})
    for number in range(first, rules.rounds):
        report(number, "rollout", {})
        batch = random.Random(derive(rules.seed, "lists", number)).sample(lists, rules.lists)
        with phase("rollout"):
            trajectories = _rank(number, rules, batch, stage, engines, store.shards(number))
        report(number, "update", {})
        give_way(policies)
        with phase("score"):
            verdicts = assign_credit(trajectories, credit)
        with phase("update_ranker"):
            prepared = prepare(policy, ranker_samples(trajectories, verdicts), None)
            seed = derive(rules.seed, "update", number, "ranker")
            updates = learn(policy, prepared.samples, per_update=rules.per_update, seed=seed)
        done = _round(number, trajectories, verdicts, prepared, updates)
        metrics = done.metrics(credit)
        with phase("checkpoint"):
            store.save(done, metrics, policies, ["ranker"])
        report(number, "done", metrics)


def _rank(
    number: int,
    rules: ListRules,
    batch: Sequence[RankingList],
    stage: ModelRanker,
    engines: Mapping[str, Engine],
    kept: Kept,
) -> list[Trajectory]:
    """Rankings of ``batch``: a round is one shard, since it is a single batch of requests."""
    seed = derive(rules.seed, "round", number)
    entries = {entry.question: entry for entry in batch}
    shards = collect(
        lambda question, sample: rank_list(entries[question], sample, stage, seed, stage.sampling),
        list(entries),
        engines,
        samples=rules.group_size,
        shard_questions=max(1, len(batch)),
        kept=kept,
    )
    return [trajectory for shard in shards for trajectory in shard]


def _round(
    number: int,
    trajectories: Sequence[Trajectory],
    verdicts: Verdicts,
    prepared: Any,
    updates: Sequence[Any],
) -> Round:
    return Round(number, trajectories, verdicts, {"ranker": prepared}, {"ranker": updates}, {})
