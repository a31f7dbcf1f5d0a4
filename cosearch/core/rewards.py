"""Rewards (Section 3.3): the agent's answer reward (Eq. 4), the ranking reward (Eq. 5) and the
composite ranking reward (Eq. 6). Every choice is a parameter."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from cosearch.core.protocols import Judgement
from cosearch.core.relevance import RelevanceRule
from cosearch.core.shown import shows_answer
from cosearch.core.text import answer_f1, exact_match
from cosearch.core.types import SearchCall, Trajectory


@dataclass(frozen=True, slots=True)
class RewardRules:
    """Constants of Eqs. 4-6; the values of both presets stand in params.yaml."""

    format_penalty: float
    """alpha: a malformed trajectory or ranking earns -alpha."""
    gamma: float
    gate_inclusive: bool
    """Whether r_rel = gamma already passes the gate (paper: r_rel > gamma)."""
    hit_cutoffs: tuple[int, ...]
    ranking_metric: str
    """``hit`` (Eq. 5) or ``ndcg``."""
    use_relevance: bool
    use_main: bool
    main_threshold: float | None
    """None: the main term is r_main. A number: the term is 1 if r_main reaches it, else 0 (as in
    the released code)."""
    exclude_malformed_trajectories: bool
    """True: calls of malformed trajectories leave ranker training. False: their main term is 0."""
    yes_no_rule: str
    answer_metric: str
    """r_main of a well-formed trajectory: ``f1`` (Eq. 4) or ``em`` (Search-R1)."""
    source: str
    """What pays a well-formed ranking: ``composite`` (Eq. 6) or ``judge`` (row of Table 3)."""


class Branch(StrEnum):
    """Which case of Eq. 6 paid a ranker call."""

    MALFORMED = "malformed"
    RELEVANCE_ONLY = "relevance_only"
    RELEVANCE_AND_MAIN = "relevance_and_main"
    MAIN_ONLY = "main_only"
    JUDGE = "judge"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True)
class CallReward:
    """Reward of one ranker call, and its parts. ``labels`` align with D_N."""

    labels: tuple[bool, ...]
    has_answer: bool
    """I_ans."""
    r_rel: float
    r_main: float
    r_rank: float
    branch: Branch
    shown_answer: bool
    """Whether the agent read an answer: among the documents that fitted, as far as they were shown
    (``core.shown``)."""
    judgement: Judgement | None = None
    """What a judge said, where one paid."""


def hit_at(ranked_labels: Sequence[bool], k: int) -> float:
    """1.0 iff one of the first ``k`` is relevant."""
    return float(any(ranked_labels[:k]))


def ndcg_at(ranked_labels: Sequence[bool], k: int, relevant: int) -> float:
    """Binary nDCG@k. The ideal takes all ``relevant`` documents of D_N; it is 0 without any."""
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(k, relevant)))
    gain = sum(label / math.log2(rank + 2) for rank, label in enumerate(ranked_labels[:k]))
    return gain / ideal if ideal else 0.0


def relevance_reward(labels: Sequence[bool], ranking: Sequence[int], rules: RewardRules) -> float:
    """r_rel (Eq. 5): mean Hit@k over the cutoffs, or nDCG@K; 0 if I_ans = 0."""
    ranked = [labels[position] for position in ranking]
    if rules.ranking_metric == "ndcg":
        return ndcg_at(ranked, len(ranked), sum(labels))
    return sum(hit_at(ranked, k) for k in rules.hit_cutoffs) / len(rules.hit_cutoffs)


def main_reward(trajectory: Trajectory, rules: RewardRules) -> float:
    """r_main (Eq. 4): answer F1, or exact match, of a well-formed trajectory, else -alpha."""
    if not trajectory.well_formed:
        return -rules.format_penalty
    answer, golds = trajectory.answer or "", trajectory.question.golds
    if rules.answer_metric == "em":
        return exact_match(answer, golds)
    return answer_f1(answer, golds, yes_no_rule=rules.yes_no_rule)


def composite_reward(
    *, well_formed: bool, has_answer: bool, r_rel: float, main: float, rules: RewardRules
) -> tuple[float, Branch]:
    """r_rank (Eq. 6) and its case. ``main`` is the main term, after ``main_threshold``."""
    if not well_formed:
        return -rules.format_penalty, Branch.MALFORMED
    if not rules.use_relevance:
        return main, Branch.MAIN_ONLY
    if not rules.use_main:
        return r_rel, Branch.RELEVANCE_ONLY
    if not has_answer:
        return main, Branch.MAIN_ONLY
    if r_rel > rules.gamma or (rules.gate_inclusive and r_rel == rules.gamma):
        return r_rel + main, Branch.RELEVANCE_AND_MAIN
    return r_rel, Branch.RELEVANCE_ONLY


def call_reward(
    call: SearchCall, trajectory: Trajectory, rules: RewardRules, relevance: RelevanceRule
) -> CallReward:
    """Reward of one search call of ``trajectory``, before a judge is asked."""
    labels = relevance.label(trajectory.question, call.candidates)
    shown = shows_answer(call, trajectory.question, relevance)
    r_rel = relevance_reward(labels, call.ranking, rules)
    r_main = main_reward(trajectory, rules)
    if not trajectory.well_formed and rules.exclude_malformed_trajectories:
        return CallReward(labels, any(labels), r_rel, r_main, 0.0, Branch.EXCLUDED, shown)
    main = r_main if trajectory.well_formed else 0.0
    if rules.main_threshold is not None:
        main = float(main >= rules.main_threshold)
    r_rank, branch = composite_reward(
        well_formed=call.well_formed, has_answer=any(labels), r_rel=r_rel, main=main, rules=rules
    )
    return CallReward(labels, any(labels), r_rel, r_main, r_rank, branch, shown)


def judged_reward(reward: CallReward, judgement: Judgement) -> CallReward:
    """``reward`` with the judge's score in place of the composite. It is not for malformed
    rankings, which keep -alpha, and not for calls of malformed trajectories, which are excluded.

    Raises ValueError for a score outside [0, 1].
    """
    if not 0 <= judgement.score <= 1:
        raise ValueError(f"the judge gave a score of {judgement.score}; scores lie in [0, 1]")
    return replace(reward, r_rank=judgement.score, branch=Branch.JUDGE, judgement=judgement)
