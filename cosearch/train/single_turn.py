"""Single-turn GRPO of the ranker on r_rel alone: the Fixed Ranker (Appendix; Table 2).

Every list (a retrieval query with its candidates) is ranked G times; the list is the group. There
is no agent, so there is no r_main: a well-formed ranking earns r_rel, any other -alpha. Nor is
there a number of agent samples that could bound those of the ranker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cosearch.core.credit import CreditRules, assign_credit, ranker_samples
from cosearch.core.protocols import Engine
from cosearch.core.seeds import derive
from cosearch.core.types import Trajectory
from cosearch.rollouts.collect import collect
from cosearch.rollouts.pipelines import ModelRanker
from cosearch.rollouts.policy import Policy, give_way, hand_over
from cosearch.rollouts.rank_list import RankingList, rank_list
from cosearch.rollouts.resume import RunStore
from cosearch.train.epochs import places_of_round
from cosearch.train.learning import learn, prepare
from cosearch.train.observer import Observer
from cosearch.train.record import Round


@dataclass(frozen=True, slots=True)
class ListRules:
    """Sizes of the loop: ``lists`` per round, ``group_size`` rankings of each list, ``per_update``
    rankings in one update."""

    rounds: int
    lists: int
    group_size: int
    per_update: int
    importance_cap: float | None
    seed: int


@dataclass(frozen=True, slots=True)
class ListRun:
    """What a single-turn training works with. ``ranker`` is the stage that ranks a list, over
    ``policy``."""

    rules: ListRules
    credit: CreditRules
    lists: Sequence[RankingList]
    ranker: ModelRanker
    policy: Policy
    engines: Mapping[str, Engine]
    store: RunStore


def train_ranker(run: ListRun, observer: Observer) -> None:
    """Run the rounds that the store does not hold yet."""
    policies, rules = {"ranker": run.policy}, run.rules
    reward = replace(run.credit.reward, use_main=False, source="composite")
    credit = replace(run.credit, reward=reward, max_ranker_samples=None)
    first = run.store.resume(policies, ["ranker"])
    if first == 0:
        run.store.start({}, policies, ["ranker"])
    for number in range(first, rules.rounds):
        observer.report(number, "rollout", {})
        with observer.phase("rollout"):
            trajectories = _rank(run, number)
        observer.report(number, "update", {})
        give_way(policies)
        with observer.phase("score"):
            verdicts = assign_credit(trajectories, credit)
        with observer.phase("update_ranker"):
            samples = ranker_samples(trajectories, verdicts)
            prepared = prepare(run.policy, samples, rules.importance_cap)
            seed = derive(rules.seed, "update", number, "ranker")
            updates = learn(run.policy, prepared.samples, per_update=rules.per_update, seed=seed)
        with observer.phase("hand_over"):
            observer.moved(hand_over(policies))
        done = Round(number, trajectories, verdicts, {"ranker": prepared}, {"ranker": updates}, {})
        metrics = done.metrics(credit)
        with observer.phase("checkpoint"):
            last = number + 1 == rules.rounds
            run.store.save(done, metrics, policies, ["ranker"], last=last)
        observer.report(number, "done", metrics)


def _rank(run: ListRun, number: int) -> list[Trajectory]:
    """Rankings of the lists of round ``number``. A round is one shard, since it is a single batch
    of requests."""
    rules, ranker = run.rules, run.ranker
    places = places_of_round(len(run.lists), number, rules.lists, rules.seed)
    batch = [run.lists[place] for place in places]
    seed = derive(rules.seed, "round", number)
    entries = {entry.question: entry for entry in batch}
    shards = collect(
        lambda question, sample: rank_list(entries[question], sample, ranker, seed),
        list(entries),
        run.engines,
        samples=rules.group_size,
        shard_questions=max(1, len(batch)),
        kept=run.store.shards(number),
    )
    return [trajectory for shard in shards for trajectory in shard]
