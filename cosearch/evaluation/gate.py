"""The gate: the rows of a ranker that does not read its documents are not printed.

Trained by GRPO, a ranker that cannot read learns to repeat the retriever's order. That earns a fair
reward and looks like a result. Four measures on development lists show such a ranker: accuracy on
shuffled candidates, gain over the retriever, the share of groups whose rewards are all equal at
training temperature, and the share of rankings that repeat the retriever's order.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cosearch.core.advantages import is_constant
from cosearch.core.lockstep import run_lockstep
from cosearch.core.rewards import call_reward, hit_at
from cosearch.core.seeds import derive
from cosearch.core.types import Trajectory
from cosearch.data.assemble import read_questions
from cosearch.data.index import open_corpus
from cosearch.files.artifacts import write_json
from cosearch.params import blocks, rows
from cosearch.rollouts.measure import mean
from cosearch.rollouts.pipelines import HEADS, MODEL_RANKERS, ModelRanker
from cosearch.rollouts.policy import Policy, serving
from cosearch.rollouts.rank_list import RankingList, answerable, rank_list, retrieve_lists
from cosearch.rollouts.trained import read_trained
from cosearch.rollouts.wiring import Parts, open_policy
from cosearch.run.stage import Stage


@dataclass(frozen=True, slots=True)
class GateMeasures:
    """Shares over development lists that have an answer among their candidates."""

    lists: int
    id_accuracy: float
    """Share of lists, with shuffled candidates, whose first id is a relevant passage."""
    chance: float
    """What a random first id would reach."""
    hit_1: float
    retriever_hit_1: float
    constant_share: float
    identity_share: float
    well_formed: float


def refusals(found: GateMeasures, rules: blocks.Gate) -> list[str]:
    """Why a ranker's rows are not printed; empty when it passes."""
    gain = found.hit_1 - found.retriever_hit_1
    checks = [
        (found.lists > 0, "no development list has an answer among its candidates"),
        (
            found.id_accuracy >= rules.min_id_accuracy,
            f"id accuracy {found.id_accuracy:.3f} < {rules.min_id_accuracy}",
        ),
        (
            gain >= rules.min_gain_over_retriever,
            f"Hit@1 gain over the retriever {gain:+.3f} < {rules.min_gain_over_retriever}",
        ),
        (
            found.constant_share <= rules.max_constant_share,
            f"groups without spread {found.constant_share:.3f} > {rules.max_constant_share}",
        ),
        (
            found.identity_share <= rules.max_identity_share,
            f"retriever order repeated {found.identity_share:.3f} > {rules.max_identity_share}",
        ),
    ]
    return [reason for passed, reason in checks if not passed]


def write_gate(stage: Stage, row: rows.Training, target: Path) -> None:
    """Check the ranker of a trained variant and write gate.json. A variant whose ranker is no
    model passes.

    Every ranker is measured by the profile's own rules, and not by those of its variant: there is
    no agent here, so an answer or a judge cannot reward a ranking.
    """
    variant = stage.settings.variant(row.variant)
    parts, rules = Parts.of(stage.settings, {}), stage.settings.section(blocks.Gate)
    trained = read_trained(stage.paths.train(row.part, row.seed, row.variant))
    verdict: dict[str, Any] = {"measures": None, "refused": [], "trained": trained.rounds > 0}
    if variant.ranker in MODEL_RANKERS and trained.diverged is None:
        _, retriever = open_corpus(stage.settings, stage.paths)
        questions = read_questions(stage.paths, "dev")
        retrieved = retrieve_lists(questions, retriever, parts.method.rollout.top_n)
        lists = answerable(retrieved, parts.credit().relevance)[: rules.lists]
        found = measure_ranker(lists, trained.models["ranker"], variant.ranker, parts, row.seed)
        verdict |= {"measures": asdict(found), "refused": refusals(found, rules)}
    stage.progress.say(f"{stage.title}: {verdict['refused'] or 'passes'}")
    write_json(target / "gate.json", verdict)


def measure_ranker(
    lists: Sequence[RankingList], folder: str, kind: str, parts: Parts, seed: int
) -> GateMeasures:
    """All measures of the ranker of ``kind`` in ``folder``; all are 0 without lists."""
    if not lists:
        return GateMeasures(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    temperature = parts.method.rollout.ranker_temperature
    policy = open_policy(folder, parts.ranker, temperature, HEADS.get(kind, "causal"))
    rank = MODEL_RANKERS[kind]
    greedy = rank(parts.tools({"ranker": policy}, 0.0))
    sampled = rank(parts.tools({"ranker": policy}, temperature))
    group = parts.method.rollout.group_size
    with serving({"ranker": policy}):
        shuffled = _rank([_shuffle(entry, seed) for entry in lists], greedy, policy, 1)
        ranked = _rank(lists, greedy, policy, 1)
        drawn = _rank(lists, sampled, policy, group)
    credit = parts.credit()
    rewards = [call_reward(t.calls[0], t, credit.reward, credit.relevance) for t in drawn]
    groups = [
        [reward.r_rank for reward in rewards[start : start + group]]
        for start in range(0, len(rewards), group)
    ]
    labels = [credit.relevance.label(e.question, e.candidates) for e in lists]
    return GateMeasures(
        lists=len(lists),
        id_accuracy=_share([_hit(t, parts) for t in shuffled]),
        chance=_share([sum(row) / len(row) for row in labels]),
        hit_1=_share([_hit(t, parts) for t in ranked]),
        retriever_hit_1=_share([hit_at(row, 1) for row in labels]),
        constant_share=_share([is_constant(rewards) for rewards in groups]),
        identity_share=_share(
            [t.calls[0].ranking == tuple(range(len(t.calls[0].ranking))) for t in ranked]
        ),
        well_formed=_share([t.calls[0].well_formed for t in drawn]),
    )


def _rank(
    lists: Sequence[RankingList], ranker: ModelRanker, policy: Policy, samples: int
) -> list[Trajectory]:
    seed = derive("gate")
    coroutines = [
        rank_list(entry, sample, ranker, seed) for entry in lists for sample in range(samples)
    ]
    return run_lockstep(coroutines, {"ranker": policy.sampler})


def _shuffle(entry: RankingList, seed: int) -> RankingList:
    candidates = list(entry.candidates)
    random.Random(derive("gate", seed, entry.question.id)).shuffle(candidates)
    return replace(entry, candidates=tuple(candidates))


def _hit(trajectory: Trajectory, parts: Parts) -> float:
    call = trajectory.calls[0]
    labels = parts.credit().relevance.label(trajectory.question, call.candidates)
    return hit_at([labels[position] for position in call.ranking], 1)


def _share(values: Iterable[float]) -> float:
    return round(mean(values), 9)
