"""Paired bootstrap intervals for the difference of two systems on the same questions.

The question is the unit that is resampled. With several seeds a draw takes a question together
with the answers of all its seeds, because these are not independent; ``seeds.with_seeds`` then adds
the spread between seeds. A mean depends only on how
often each *distinct* difference occurs, so a draw is a multinomial over the distinct rows. This is
exact, fast for tens of thousands of questions, and independent of the order of the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from cosearch.params.rows import Statistics

TOO_FEW = "too few questions"
"""The verdict where a set has fewer questions than ``statistics.min_questions``."""
_CHUNK = 512
"""Number of draws made at once. It bounds memory and leaves the random numbers as they are."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A difference (left minus right), its interval and its standard error, over ``seeds`` seeds.
    ``unproven``: what stands in place of a verdict, if there are too few questions or seeds."""

    estimate: float
    low: float
    high: float
    level: float
    standard_error: float
    seeds: int = 1
    unproven: str = ""

    @property
    def verdict(self) -> str:
        """``above 0``, ``below 0`` or ``spans 0``; an interval with a bound at 0 spans it."""
        if self.unproven:
            return self.unproven
        if self.low > 0:
            return "above 0"
        return "below 0" if self.high < 0 else "spans 0"


def paired_interval(
    left: Floats,
    right: Floats,
    statistics: Statistics,
    *,
    strata: NDArray[np.str_] | None = None,
    weights: Mapping[str, float] | None = None,
) -> Interval:
    """Interval of mean(left) - mean(right); row i of both is the same question.

    ``left``, ``right``: shape (questions,) or (questions, seeds), column j the same seed.
    ``strata``: the data set of each question, shape (questions,); draws then stay inside each set,
    and the statistic is the average of set means with ``weights`` (default: equal, which is macro),
    the number a table prints. The seeds are not drawn. Raises ValueError for shapes that do not
    pair, no question, a value that is no number, or strata without weight.
    """
    difference = _paired(left, right).mean(axis=1, keepdims=True)
    rng = Generator(PCG64(statistics.seed))
    parts = _strata(difference, strata, weights)
    drawn = sum(
        weight * _sums(rows, statistics.draws, rng)[:, 0] / len(rows) for weight, rows in parts
    )
    estimate = sum(weight * _total(rows)[0] / len(rows) for weight, rows in parts)
    fewest = min(len(rows) for _, rows in parts)
    return _interval(float(estimate), np.asarray(drawn), statistics, fewest)


def ratio_interval(
    left: tuple[Floats, Floats],
    right: tuple[Floats, Floats],
    statistics: Statistics,
) -> Interval:
    """Interval of ``sum(hits) / sum(calls)`` of left minus that of right, questions as clusters.

    Each side is (hits, calls), both of shape (questions,) or (questions, seeds). Hit@k given I_ans
    has as many calls per question as the agent made, so it is a ratio, not a mean. Draws without a
    call on one side are left out. Questions without a call do not count for a verdict. Raises
    ValueError if a side has no call at all.
    """
    sides = [_table(part) for part in (*left, *right)]
    if len({part.shape for part in sides}) != 1:
        raise ValueError(f"sides do not pair: {[part.shape for part in sides]}")
    if not sides[1].sum() or not sides[3].sum():
        raise ValueError("a side has no call with an answer among its candidates")
    rng = Generator(PCG64(statistics.seed))
    summed = np.column_stack([side.sum(axis=1) for side in sides])
    values = _ratio_difference(_sums(summed, statistics.draws, rng))
    total = _total(summed)[np.newaxis, :]
    finite = values[np.isfinite(values)]
    fewest = min(int(calls.any(axis=1).sum()) for calls in (sides[1], sides[3]))
    return _interval(float(_ratio_difference(total)[0]), finite, statistics, fewest)


def minimal_detectable_effect(standard_error: float, *, level: float, power: float) -> float:
    """The smallest true difference whose interval of ``level`` excludes 0 with probability
    ``power``.

    Normal approximation: (z of (1 + level) / 2 + z of power) standard errors of the difference.
    """
    normal = NormalDist()
    return (normal.inv_cdf((1 + level) / 2) + normal.inv_cdf(power)) * standard_error


def _table(values: Floats) -> Floats:
    """(questions, seeds) of either shape. Raises ValueError for another one, no question, or a
    value that is no number."""
    table = np.asarray(values, dtype=np.float64)
    table = table[:, np.newaxis] if table.ndim == 1 else table
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"shape {np.shape(values)} is not questions, or questions x seeds")
    if lost := int((~np.isfinite(table)).sum()):
        raise ValueError(f"{lost} of {table.size} values are NaN, null or infinite")
    return table


def _paired(left: Floats, right: Floats) -> Floats:
    a, b = _table(left), _table(right)
    if a.shape != b.shape:
        raise ValueError(f"left {a.shape} and right {b.shape} do not pair")
    return a - b


def _strata(
    difference: Floats, strata: NDArray[np.str_] | None, weights: Mapping[str, float] | None
) -> list[tuple[float, Floats]]:
    """Weight and rows of each stratum, in the order of its name."""
    if strata is None:
        return [(1.0, difference)]
    if len(strata) != len(difference):
        raise ValueError(f"{len(strata)} strata for {len(difference)} questions")
    names = sorted({str(name) for name in strata})
    weights = dict.fromkeys(names, 1 / len(names)) if weights is None else weights
    if set(weights) != set(names):
        raise ValueError(f"weights for {sorted(weights)}, strata {names}")
    return [(weights[name], difference[np.asarray(strata) == name]) for name in names]


def _sums(rows: Floats, draws: int, rng: Generator) -> Floats:
    """Column sums of ``draws`` resamples of the rows; shape (draws, columns)."""
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    sums = np.empty((draws, rows.shape[1]))
    for start in range(0, draws, _CHUNK):
        size = min(_CHUNK, draws - start)
        drawn = rng.multinomial(len(rows), counts / len(rows), size=size)
        sums[start : start + size] = drawn @ distinct
    return sums


def _total(rows: Floats) -> Floats:
    """Column sums of the rows themselves. The order of the rows does not change the result."""
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    total: Floats = counts @ distinct
    return total


def _ratio_difference(sums: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        difference: Floats = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
    return difference


def _interval(estimate: float, drawn: Floats, statistics: Statistics, fewest: int) -> Interval:
    """``fewest``: questions of the smallest set."""
    level = statistics.level
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    error = float(drawn.std(ddof=1)) if len(drawn) > 1 else 0.0
    unproven = "" if fewest >= statistics.min_questions else TOO_FEW
    return Interval(estimate, float(low), float(high), level, error, unproven=unproven)
