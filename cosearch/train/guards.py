"""Guards that notice a diverging run (Table 3, row "small ranker": the paper's run diverged).

A diverged run is a result. It stops, and the measure that a guard noticed is recorded.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cosearch.params.blocks import Guards

ROLES = ("agent", "ranker")

Metrics = Mapping[str, float]
"""Metrics of one round, as ``train.record`` names them."""


@dataclass(frozen=True, slots=True)
class _Check:
    """One measure against one threshold. ``applies`` is true (not 0) for a row that measured it."""

    measure: str
    bound: float
    lowest: bool
    name: str
    applies: Callable[[Metrics], float] = lambda row: True

    def broken(self, row: Metrics) -> bool:
        """Whether ``row`` lies beyond the threshold. NaN does."""
        if self.measure not in row or not self.applies(row):
            return False
        value = row[self.measure]
        kept = value >= self.bound if self.lowest else value <= self.bound
        return math.isnan(value) or not kept


def divergence(history: Sequence[Metrics], guards: Guards) -> str | None:
    """Why the run with the rounds ``history`` has diverged, or None.

    A run has diverged when a measure lies beyond its threshold in each of the last ``patience``
    rows.
    """
    if len(history) < guards.patience:
        return None
    last = history[-guards.patience :]
    for check in _checks(history[: -guards.patience], guards):
        if all(check.broken(row) for row in last):
            side = "below" if check.lowest else "above"
            return (
                f"{check.measure} = {last[-1][check.measure]:.6g} is {side} {check.name} ="
                f" {check.bound:.6g} in round {last[-1]['round']:.0f}"
                f" ({guards.patience} in a row)"
            )
    return None


def _checks(before: Sequence[Metrics], guards: Guards) -> list[_Check]:
    """The guards that are on, in a fixed order. The best round is one of ``before``."""
    best = max((row["r_main"] for row in before if "r_main" in row), default=None)
    drop = guards.max_reward_drop
    floor = None if drop is None or best is None else best - drop
    found = [
        _check("end_answered", guards.min_well_formed, True, "min_well_formed"),
        _check(
            "ranker_well_formed",
            guards.min_ranker_well_formed,
            True,
            "min_ranker_well_formed",
            lambda row: row["calls"],
        ),
        _check("r_main", floor, True, "the best round less max_reward_drop"),
    ]
    for role in ROLES:
        learned = _learned(role)
        found += [
            _check(f"{role}_entropy", guards.min_entropy, True, "min_entropy", learned),
            _check(f"{role}_entropy", guards.max_entropy, False, "max_entropy", learned),
            _check(f"{role}_gap_mean", guards.max_gap, False, "max_gap"),
        ]
    return [check for check in found if check is not None]


def _check(
    measure: str,
    bound: float | None,
    lowest: bool,
    name: str,
    applies: Callable[[Metrics], float] = lambda row: True,
) -> _Check | None:
    return None if bound is None else _Check(measure, bound, lowest, name, applies)


def _learned(role: str) -> Callable[[Metrics], float]:
    """Whether the role was trained in a round: its entropy is a mean over trained actions."""
    return lambda row: row[f"{role}_trained_tokens"]
