"""Measures of greedy trajectories on development questions. Learning curves show them."""

import math
from collections.abc import Iterable, Sequence

from cosearch.core.credit import CreditRules
from cosearch.core.rewards import CallReward, call_reward, hit_at
from cosearch.core.text import answer_f1, exact_match
from cosearch.core.types import SearchCall, Trajectory


def measure(trajectories: Sequence[Trajectory], credit: CreditRules) -> dict[str, float]:
    """F1, EM, format and searches, means over the trajectories; Hit@k, a mean over the calls with
    I_ans = 1. ``trajectories`` must not be empty."""
    answered = [t for t in trajectories if t.well_formed]
    calls = [
        (call, call_reward(call, t, credit.reward, credit.relevance))
        for t in trajectories
        for call in t.calls
    ]
    answerable = [(call, reward) for call, reward in calls if reward.has_answer]
    count = len(trajectories)
    rule = credit.reward.yes_no_rule
    return {
        "f1": math.fsum(
            answer_f1(t.answer or "", t.question.golds, yes_no_rule=rule) for t in answered
        )
        / count,
        "em": math.fsum(exact_match(t.answer or "", t.question.golds) for t in answered) / count,
        "well_formed": len(answered) / count,
        "searches": len(calls) / count,
        "ranker_well_formed": mean(call.well_formed for call, _ in calls),
        **hits(answerable, credit.reward.hit_cutoffs),
    }


def hits(
    calls: Sequence[tuple[SearchCall, CallReward]], cutoffs: Sequence[int]
) -> dict[str, float]:
    """Hit@k of the order shown to the agent, a mean over ``calls``."""
    return {
        f"hit_{k}": mean(hit_at([r.labels[p] for p in c.ranking], k) for c, r in calls)
        for k in cutoffs
    }


def mean(values: Iterable[float]) -> float:
    """The mean of ``values``; 0.0 if there are none."""
    collected = [float(value) for value in values]
    return math.fsum(collected) / len(collected) if collected else 0.0
