"""Group-relative advantages (Section 3.4): one estimator, used with two group keys."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

EQUAL_WITHIN = 1e-6
"""Rewards that differ by no more than this count as equal, so that rounding does not make a
constant group look informative."""


@dataclass(frozen=True, slots=True)
class AdvantageRules:
    """``std``: ``sample`` divides by n-1, ``population`` by n; they differ by 7 % at eight members.
    ``adv_eps`` is added to the standard deviation."""

    std: str
    adv_eps: float


def is_constant(rewards: Sequence[float]) -> bool:
    """True iff the group carries no signal: it has one member, or all its rewards are equal."""
    return len(rewards) < 2 or max(rewards) - min(rewards) <= EQUAL_WITHIN


def group_advantages(rewards: Sequence[float], rules: AdvantageRules) -> list[float]:
    """``(r - mean) / (std + eps)`` inside one group; zeros for a constant group."""
    if is_constant(rewards):
        return [0.0] * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    squares = math.fsum((reward - mean) ** 2 for reward in rewards)
    divisor = len(rewards) - 1 if rules.std == "sample" else len(rewards)
    std = math.sqrt(squares / divisor)
    return [(reward - mean) / (std + rules.adv_eps) for reward in rewards]
