"""Declared comparisons, and what so many questions can show."""

import dataclasses

import polars as pl
import pytest

from cosearch.statistics.comparisons import Comparison, compare
from cosearch.tables.contrasts import comparison_table, detectable_table

COMPARISONS = [
    Comparison("cosearch", "start", "f1"),
    Comparison("cosearch", "start", "hit_3"),
    Comparison("oracle", "retrieval_only", "em"),
    Comparison("cosearch", "fixed_ranker", "f1"),
]


def test_comparison_rows_carry_difference_interval_and_verdict(results, rollouts):
    table = comparison_table(
        results, COMPARISONS, scope=rollouts.scope(), statistics=rollouts.statistics, status={}
    )
    start, hits, _oracle, _fixed = table.rows
    cells = dict(zip((column.name for column in table.columns), start.cells, strict=True))
    assert cells["difference"] == pytest.approx(cells["left"] - cells["right"])
    assert cells["95% low"] < cells["difference"] < cells["95% high"]
    assert cells["verdict"] == "above 0"
    assert len(str(cells["by seed"]).split()) == 3
    assert hits.cells[0] == "hit_3"


def test_hit_of_a_comparison_is_the_pooled_one(results, rollouts):
    outcome = compare(
        results,
        Comparison("cosearch", "start", "hit_1"),
        scope=rollouts.scope(),
        statistics=rollouts.statistics,
        status={},
    )
    calls = pl.concat(one.calls for one in results if one.system == "cosearch")
    assert outcome.left == pytest.approx(calls.filter("has_answer")["hit_1"].mean())
    assert outcome.interval.estimate == pytest.approx(outcome.left - outcome.right)


def test_comparing_uses_the_seeds_both_sides_have(results, rollouts):
    given = {"scope": rollouts.scope(), "statistics": rollouts.statistics, "status": {}}
    outcome = compare(results, Comparison("cosearch", "oracle", "f1"), **given)
    assert len(outcome.by_seed) == 1
    only = [one for one in results if one.system == "oracle" or one.seed == 2]
    assert compare(only, Comparison("cosearch", "oracle", "f1"), **given).status == (
        "no seed in common"
    )


def test_a_comparison_does_not_depend_on_the_order_of_rows(results, rollouts):
    shuffled = [
        dataclasses.replace(
            one,
            predictions=one.predictions.sample(fraction=1, shuffle=True, seed=at),
            calls=one.calls.sample(fraction=1, shuffle=True, seed=at),
        )
        for at, one in enumerate(results)
    ]
    given = {"scope": rollouts.scope(), "statistics": rollouts.statistics, "status": {}}
    for comparison in COMPARISONS:
        assert compare(results, comparison, **given) == compare(shuffled[::-1], comparison, **given)


def test_systems_with_equal_answers_differ_by_nothing(results, rollouts):
    twin = [dataclasses.replace(one, system="start") for one in results if one.system == "cosearch"]
    kept = [one for one in results if one.system == "cosearch"]
    for metric in ("f1", "em", "hit_2"):
        outcome = compare(
            [*kept, *twin],
            Comparison("cosearch", "start", metric),
            scope=rollouts.scope(),
            statistics=rollouts.statistics,
            status={},
        )
        interval = outcome.interval
        assert (interval.estimate, interval.low, interval.high) == (0.0, 0.0, 0.0)
        assert interval.verdict == "spans 0"


def test_hits_without_any_answer_are_a_status(results, rollouts):
    empty = [
        dataclasses.replace(one, calls=one.calls.filter(~pl.col("has_answer"))) for one in results
    ]
    outcome = compare(
        empty,
        Comparison("cosearch", "start", "hit_1"),
        scope=rollouts.scope(),
        statistics=rollouts.statistics,
        status={},
    )
    assert outcome.status == "no call with an answer among its candidates"


@pytest.mark.parametrize(
    ("left", "right", "metric"), [("a", "b", "bleu"), ("a", "b", "hit_0"), ("a", "a", "f1")]
)
def test_comparisons_that_mean_nothing_are_refused(left, right, metric):
    with pytest.raises(ValueError, match=r"metric|itself"):
        Comparison(left, right, metric)


def detectable(results, rollouts, **changes):
    given = {"scope": rollouts.scope(), "statistics": rollouts.statistics, "status": {}, **changes}
    return detectable_table(results, left="cosearch", right="start", **given)


def test_what_so_many_questions_can_show(rollouts):
    """Per set, kind and average; about half of it with four times the questions."""
    few, many = (
        detectable(
            [
                rollouts.result(system, skill=skill, questions=size)
                for system, skill in (("cosearch", 0.6), ("start", 0.3))
            ],
            rollouts,
        )
        for size in (40, 160)
    )
    labels = [row.label for row in few.rows]
    assert labels == [*rollouts.kinds, "single", "multi", "macro", "macro_groups", "micro"]
    assert [row.cells[0] for row in few.rows] == [40] * 7 + [120, 160, 280, 280, 280]
    for small, large in zip(few.rows, many.rows, strict=True):
        _, _, error, smallest = small.cells
        assert smallest == pytest.approx((1.959964 + 0.841621) * error, rel=1e-5)
        assert large.cells[3] < 0.75 * smallest


def test_a_pair_without_both_sides_shows_nothing(results, rollouts):
    table = detectable(results, rollouts, status={"start": "diverged"})
    assert [row.status for row in table.rows] == ["the other side is missing", "diverged"]
    apart = [one for one in results if (one.system, one.seed) in (("cosearch", 0), ("start", 1))]
    assert [row.status for row in detectable(apart, rollouts).rows] == ["no seed in common"]
