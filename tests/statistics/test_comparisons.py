"""Declared comparisons of two systems."""

import dataclasses

import polars as pl
import pytest

from cosearch.statistics.comparisons import compare
from tests.evaluated import COMPARISONS, make_comparison


def test_hit_of_a_comparison_is_the_pooled_one(results, rollouts):
    outcome = compare(rollouts.set_of(results), make_comparison("cosearch", "start", "hit_1"))
    calls = pl.concat(one.calls for one in results if one.system == "cosearch")
    assert outcome.left == pytest.approx(calls.filter("has_answer")["hit_1"].mean())
    assert outcome.interval.estimate == pytest.approx(outcome.left - outcome.right)


def test_comparing_uses_the_seeds_both_sides_have(results, rollouts):
    pair = make_comparison("cosearch", "oracle")
    outcome = compare(rollouts.set_of(results), pair)
    assert len(outcome.by_seed) == 1
    only = [one for one in results if one.system == "oracle" or one.seed == 2]
    assert compare(rollouts.set_of(only), pair).status == "no seed in common"


def test_a_comparison_does_not_depend_on_the_order_of_rows(results, rollouts):
    shuffled = [
        dataclasses.replace(
            one,
            predictions=one.predictions.sample(fraction=1, shuffle=True, seed=at),
            calls=one.calls.sample(fraction=1, shuffle=True, seed=at),
        )
        for at, one in enumerate(results)
    ]
    first, second = rollouts.set_of(results), rollouts.set_of(shuffled[::-1])
    for comparison in COMPARISONS:
        assert compare(first, comparison) == compare(second, comparison)


def test_systems_with_equal_answers_differ_by_nothing(results, rollouts):
    twin = [dataclasses.replace(one, system="start") for one in results if one.system == "cosearch"]
    kept = [one for one in results if one.system == "cosearch"]
    for metric in ("f1", "em", "hit_2"):
        pair = make_comparison("cosearch", "start", metric)
        outcome = compare(rollouts.set_of([*kept, *twin]), pair)
        interval = outcome.interval
        assert (interval.estimate, interval.low, interval.high) == (0.0, 0.0, 0.0)
        assert interval.verdict == "spans 0"


def test_hits_without_any_answer_are_a_status(results, rollouts):
    empty = [
        dataclasses.replace(one, calls=one.calls.filter(~pl.col("has_answer"))) for one in results
    ]
    outcome = compare(rollouts.set_of(empty), make_comparison("cosearch", "start", "hit_1"))
    assert outcome.status == "no call with an answer among its candidates"


@pytest.mark.parametrize(
    ("left", "right", "metric"), [("a", "b", "bleu"), ("a", "b", "hit_0"), ("a", "a", "f1")]
)
def test_comparisons_that_mean_nothing_are_refused(left, right, metric):
    with pytest.raises(ValueError, match=r"metric|itself"):
        make_comparison(left, right, metric)
