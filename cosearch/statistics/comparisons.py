"""Declared comparisons of two systems: the difference, its paired interval, its verdict."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cosearch.scores.averages import Average
from cosearch.statistics.bootstrap import (
    Floats,
    Interval,
    minimal_detectable_effect,
    paired_interval,
    ratio_interval,
)
from cosearch.statistics.results import Result, Scope, by_system, datasets, questions

_HIT = re.compile(r"hit_([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Comparison:
    """``metric``: ``f1``, ``em`` or ``hit_k`` (Hit@k given that D_N holds an answer)."""

    left: str
    right: str
    metric: str

    def __post_init__(self) -> None:
        if self.metric not in ("f1", "em") and not _HIT.fullmatch(self.metric):
            raise ValueError(f"metric {self.metric!r} is neither f1, em nor hit_<k>")
        if self.left == self.right:
            raise ValueError(f"{self.left} is compared with itself")


@dataclass(frozen=True, slots=True)
class Statistics:
    """``draws`` resamples from ``seed``; ``resample_seeds``: the interval also covers another
    training; ``power``: of the smallest detectable difference."""

    level: float
    draws: int
    seed: int
    resample_seeds: bool
    power: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Values of both sides and the interval of their difference, or the ``status`` why not."""

    comparison: Comparison
    left: float | None = None
    right: float | None = None
    interval: Interval | None = None
    detectable: float | None = None
    by_seed: tuple[float, ...] = ()
    status: str | None = None


def compare(
    results: Sequence[Result],
    comparison: Comparison,
    *,
    scope: Scope,
    statistics: Statistics,
    status: Mapping[str, str],
) -> Outcome:
    """Left minus right over the seeds both have. F1 and EM are averaged as the scope says.

    A side that was not run or has a status (withheld, diverged) makes an Outcome with a status.
    """
    for side in (comparison.left, comparison.right):
        if side in status:
            return Outcome(comparison, status=f"{scope.label(side)}: {status[side]}")
    systems = by_system(results)
    left, right = (systems.get(side, []) for side in (comparison.left, comparison.right))
    if not left or not right:
        return Outcome(comparison, status="not run")
    left, right = common_seeds(left, right)
    if not left:
        return Outcome(comparison, status="no seed in common")
    if _HIT.fullmatch(comparison.metric):
        return _compare_hits(comparison, left, right, statistics)
    return _compare_means(comparison, left, right, scope, statistics)


def common_seeds(
    left: Sequence[Result], right: Sequence[Result]
) -> tuple[list[Result], list[Result]]:
    """Both sides cut to the seeds they share, in the same order."""
    seeds = {one.seed for one in left} & {one.seed for one in right}
    kept = ([one for one in side if one.seed in seeds] for side in (left, right))
    first, second = (sorted(side, key=lambda one: one.seed) for side in kept)
    return first, second


def _compare_means(
    comparison: Comparison,
    left: list[Result],
    right: list[Result],
    scope: Scope,
    statistics: Statistics,
) -> Outcome:
    column = scope.f1 if comparison.metric == "f1" else comparison.metric
    average = scope.average_of(datasets([*left, *right], scope))
    values = [
        [average.of({name: one.mean(column, name) for name in average.weights}) for one in side]
        for side in (left, right)
    ]
    interval = mean_interval(left, right, column, average=average, statistics=statistics)
    return _outcome(comparison, np.array(values), interval, statistics)


def mean_interval(
    left: Sequence[Result],
    right: Sequence[Result],
    column: str,
    *,
    average: Average,
    statistics: Statistics,
) -> Interval:
    """Interval of the difference of an average over the sets it names; seeds align by position."""
    index = questions(left[0])
    inside = index["dataset"].is_in(list(average.weights)).to_numpy()
    return paired_interval(
        score_matrix(left, column)[inside],
        score_matrix(right, column)[inside],
        level=statistics.level,
        draws=statistics.draws,
        seed=statistics.seed,
        strata=index["dataset"].to_numpy()[inside],
        weights=average.weights,
        resample_seeds=statistics.resample_seeds,
    )


def value_interval(
    results: Sequence[Result], column: str, *, average: Average, statistics: Statistics
) -> Interval:
    """Interval of an average itself, over the sets that it names."""
    index = questions(results[0])
    inside = index["dataset"].is_in(list(average.weights)).to_numpy()
    scores = score_matrix(results, column)[inside]
    return paired_interval(
        scores,
        np.zeros_like(scores),
        level=statistics.level,
        draws=statistics.draws,
        seed=statistics.seed,
        strata=index["dataset"].to_numpy()[inside],
        weights=average.weights,
        resample_seeds=statistics.resample_seeds,
    )


def _compare_hits(
    comparison: Comparison, left: list[Result], right: list[Result], statistics: Statistics
) -> Outcome:
    sides = [hit_matrices(side, comparison.metric) for side in (left, right)]
    if not all(calls.sum(axis=0).all() for _, calls in sides):
        return Outcome(comparison, status="no call with an answer among its candidates")
    interval = ratio_interval(
        sides[0],
        sides[1],
        level=statistics.level,
        draws=statistics.draws,
        seed=statistics.seed,
        resample_seeds=statistics.resample_seeds,
    )
    by_seed = np.array([hits.sum(axis=0) / calls.sum(axis=0) for hits, calls in sides])
    pooled = [float(hits.sum() / calls.sum()) for hits, calls in sides]
    return _outcome(comparison, by_seed, interval, statistics, pooled)


def _outcome(
    comparison: Comparison,
    values: Floats,
    interval: Interval,
    statistics: Statistics,
    totals: Sequence[float] | None = None,
) -> Outcome:
    """``values``: (side, seed). ``totals``: of each side where it is not the mean over seeds."""
    left, right = totals or [float(side.mean()) for side in values]
    return Outcome(
        comparison,
        left,
        right,
        interval,
        minimal_detectable_effect(
            interval.standard_error, level=statistics.level, power=statistics.power
        ),
        tuple(float(difference) for difference in values[0] - values[1]),
    )


def score_matrix(results: Sequence[Result], column: str) -> Floats:
    """(questions, seeds) of a predictions column, questions sorted by data set and id."""
    return np.column_stack(
        [result.predictions.sort("dataset", "question_id")[column].to_numpy() for result in results]
    )


def hit_matrices(results: Sequence[Result], column: str) -> tuple[Floats, Floats]:
    """Hits, and calls with an answer among their candidates; both (questions, seeds)."""
    joined = [
        questions(result).join(
            result.calls.filter("has_answer")
            .group_by("dataset", "question_id")
            .agg(pl.col(column).sum().alias("hits"), pl.len().cast(pl.Float64).alias("calls")),
            on=["dataset", "question_id"],
            how="left",
            maintain_order="left",
        )
        for result in results
    ]
    hits, calls = (
        np.column_stack([frame[name].fill_null(0).to_numpy() for frame in joined])
        for name in ("hits", "calls")
    )
    return hits, calls
