"""Declared comparisons of two systems: their difference and its paired bootstrap interval."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosearch.params.rows import Comparison, Statistics
from cosearch.scores.averages import Average
from cosearch.statistics.bootstrap import (
    Floats,
    Interval,
    minimal_detectable_effect,
    paired_interval,
    ratio_interval,
)
from cosearch.statistics.results import NOT_RUN, Result, ResultSet, questions
from cosearch.statistics.seeds import unproven, with_seeds

Seeds = Sequence[Result]
"""Results of one system, one per seed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Values of both sides and the interval of their difference, or the ``status`` in their place.

    ``detectable``: the smallest true difference that such an interval would detect. ``by_seed``:
    the difference at every seed.
    """

    comparison: Comparison
    left: float | None = None
    right: float | None = None
    interval: Interval | None = None
    detectable: float | None = None
    by_seed: tuple[float, ...] = ()
    status: str | None = None


def compare(results: ResultSet, comparison: Comparison) -> Outcome:
    """Left minus right over the seeds that both have. The scope's average is taken of F1 and EM.

    The outcome has a status instead of numbers where a side was not run or has a status itself.
    """
    for side in (comparison.left, comparison.right):
        if side in results.status:
            why = f"{results.scope.label(side)}: {results.status[side]}"
            return Outcome(comparison, status=why)
    left, right = (results.seeds_of(side) for side in (comparison.left, comparison.right))
    if not left or not right:
        return Outcome(comparison, status=NOT_RUN)
    left, right = common_seeds(left, right)
    if not left:
        return Outcome(comparison, status="no seed in common")
    build = _compare_hits if comparison.cutoff else _compare_means
    return build(comparison, left, right, results)


def common_seeds(left: Seeds, right: Seeds) -> tuple[Seeds, Seeds]:
    """Both sides cut to the seeds they share, in the same order."""
    seeds = {one.seed for one in left} & {one.seed for one in right}
    kept = ([one for one in side if one.seed in seeds] for side in (left, right))
    first, second = (sorted(side, key=lambda one: one.seed) for side in kept)
    return first, second


def _compare_means(
    comparison: Comparison, left: Seeds, right: Seeds, results: ResultSet
) -> Outcome:
    column = results.scope.f1 if comparison.metric == "f1" else comparison.metric
    average = replace(results, evaluated=[*left, *right]).average
    values = np.array([_averages(side, column, average) for side in (left, right)])
    interval = mean_interval(left, right, column, average, results.statistics)
    return _outcome(comparison, values, interval, results.statistics)


def mean_interval(
    left: Seeds, right: Seeds, column: str, average: Average, statistics: Statistics
) -> Interval:
    """Interval of the difference of an average over the sets it names; seeds align by position."""
    inside, strata = _questions_of(left[0], average)
    interval = paired_interval(
        score_matrix(left, column)[inside],
        score_matrix(right, column)[inside],
        statistics,
        strata=strata,
        weights=average.weights,
    )
    by_seed = _averages(left, column, average) - _averages(right, column, average)
    return _judged(interval, by_seed, [*left, *right], statistics)


def value_interval(
    results: Seeds, column: str, average: Average, statistics: Statistics
) -> Interval:
    """Interval of an average itself, over the sets that it names."""
    inside, strata = _questions_of(results[0], average)
    scores = score_matrix(results, column)[inside]
    interval = paired_interval(
        scores, np.zeros_like(scores), statistics, strata=strata, weights=average.weights
    )
    return _judged(interval, _averages(results, column, average), results, statistics)


def _averages(results: Seeds, column: str, average: Average) -> Floats:
    """An average at every seed."""
    means = ({name: one.mean(column, name) for name in average.weights} for one in results)
    return np.array([average.of(cells) for cells in means])


def _judged(
    interval: Interval, by_seed: Floats, results: Seeds, statistics: Statistics
) -> Interval:
    """``interval`` with the spread of the seeds, and without a verdict where they are too few."""
    trained = any(one.trained for one in results)
    found = with_seeds(interval, by_seed.tolist())
    few_seeds = unproven(trained, len(by_seed), statistics)
    return replace(found, unproven=interval.unproven or few_seeds)


def _questions_of(result: Result, average: Average) -> tuple[NDArray[np.bool_], NDArray[np.str_]]:
    """Which of a result's questions the average counts, and the data sets of those."""
    index = questions(result)
    inside = index["dataset"].is_in(list(average.weights)).to_numpy()
    return inside, index["dataset"].to_numpy()[inside]


def _compare_hits(comparison: Comparison, left: Seeds, right: Seeds, results: ResultSet) -> Outcome:
    sides = [hit_matrices(side, comparison.metric) for side in (left, right)]
    if not all(calls.sum(axis=0).all() for _, calls in sides):
        return Outcome(comparison, status="no call with an answer among its candidates")
    by_seed = np.array([hits.sum(axis=0) / calls.sum(axis=0) for hits, calls in sides])
    over_questions = ratio_interval(sides[0], sides[1], results.statistics)
    both, differences = [*left, *right], by_seed[0] - by_seed[1]
    interval = _judged(over_questions, differences, both, results.statistics)
    pooled = [float(hits.sum() / calls.sum()) for hits, calls in sides]
    return _outcome(comparison, by_seed, interval, results.statistics, pooled)


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


def score_matrix(results: Seeds, column: str) -> Floats:
    """(questions, seeds) of a predictions column, questions sorted by data set and id."""
    return np.column_stack(
        [result.predictions.sort("dataset", "question_id")[column].to_numpy() for result in results]
    )


def hit_matrices(results: Seeds, column: str) -> tuple[Floats, Floats]:
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
