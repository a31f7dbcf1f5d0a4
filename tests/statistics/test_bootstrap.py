"""Intervals: what they cover, what they do not depend on, what they refuse."""

import numpy as np
import pytest
from numpy.random import PCG64, Generator

from cosearch.params.rows import Statistics
from cosearch.statistics.bootstrap import (
    minimal_detectable_effect,
    paired_interval,
    ratio_interval,
)

DRAWS = 500


def settings(seed=0, draws=DRAWS):
    return Statistics(level=0.95, draws=draws, seed=seed, min_seeds=3, power=0.8, min_questions=10)


def scores(rng, size, shift=0.0):
    """F1-like scores: many exact zeros and ones."""
    return np.round(np.clip(rng.normal(0.5 + shift, 0.6, size), 0, 1), 2)


@pytest.fixture
def rng():
    return Generator(PCG64(1))


def test_identical_systems_give_exactly_zero(rng):
    same = scores(rng, (50, 3))
    interval = paired_interval(same, same, settings())
    assert (interval.estimate, interval.low, interval.high) == (0.0, 0.0, 0.0)
    assert interval.standard_error == 0.0
    assert interval.verdict == "spans 0"


def test_identical_ratios_give_exactly_zero(rng):
    calls = rng.integers(0, 4, 50).astype(float)
    side = (rng.binomial(calls.astype(int), 0.5).astype(float), calls)
    interval = ratio_interval(side, side, settings())
    assert (interval.estimate, interval.low, interval.high) == (0.0, 0.0, 0.0)


def test_swapping_sides_mirrors_the_interval(rng):
    left, right = scores(rng, 80, 0.2), scores(rng, 80)
    forward = paired_interval(left, right, settings())
    backward = paired_interval(right, left, settings(1))
    assert backward.estimate == pytest.approx(-forward.estimate)
    assert backward.low == pytest.approx(-forward.high, abs=0.03)


@pytest.mark.parametrize("shape", [(70,), (70, 3)])
@pytest.mark.parametrize("stratified", [False, True])
def test_order_of_rows_does_not_matter(rng, shape, stratified):
    left, right = scores(rng, shape), scores(rng, shape)
    strata = np.array(["a", "b", "c"])[rng.integers(0, 3, 70)]
    order = rng.permutation(70)
    first, second = (
        paired_interval(
            left[rows],
            right[rows],
            settings(4),
            strata=strata[rows] if stratified else None,
        )
        for rows in (np.arange(70), order)
    )
    assert first == second


def test_the_seed_decides_the_interval(rng):
    left, right = scores(rng, 60, 0.2), scores(rng, 60)
    first, again, other = (paired_interval(left, right, settings(seed)) for seed in (3, 3, 4))
    assert first == again
    assert first.estimate == other.estimate
    assert (first.low, first.high) != (other.low, other.high)


def test_pairing_beats_ignoring_it(rng):
    """The same questions are hard for both systems: the paired interval is the narrower one."""
    hard = rng.normal(0, 1, 200)
    left, right = hard + rng.normal(0.1, 0.1, 200), hard + rng.normal(0, 0.1, 200)
    paired = paired_interval(left, right, settings())
    loose = paired_interval(left, rng.permutation(right), settings())
    assert paired.verdict == "above 0"
    assert loose.verdict == "spans 0"
    assert paired.standard_error < loose.standard_error / 5


def test_coverage_of_the_mean_is_nominal():
    """Of 400 samples with a known difference, about 95 % of the intervals hold it (binomial
    standard error: 1.1 points)."""
    rng = Generator(PCG64(2))
    truth = 0.1
    covered = 0
    for trial in range(400):
        hard = rng.random(120)
        left = (rng.random(120) < 0.2 + 0.6 * hard).astype(float)
        right = (rng.random(120) < 0.1 + 0.6 * hard).astype(float)
        interval = paired_interval(left, right, settings(trial, 400))
        covered += interval.low <= truth <= interval.high
    assert 0.92 <= covered / 400 <= 0.98


def test_coverage_of_the_macro_average_is_nominal():
    """Sets of very different sizes: the statistic is the mean of set means, not of questions."""
    rng = Generator(PCG64(3))
    sizes, shifts = {"big": 300, "small": 30}, {"big": 0.0, "small": 0.4}
    strata = np.repeat(list(sizes), list(sizes.values()))
    mean = np.array([shifts[name] for name in strata])
    covered = 0
    for trial in range(400):
        left = rng.normal(mean, 1.0)
        interval = paired_interval(left, np.zeros(330), settings(trial, 300), strata=strata)
        covered += interval.low <= 0.2 <= interval.high
    assert 0.91 <= covered / 400 <= 0.98


def test_coverage_of_the_ratio_is_nominal():
    """Calls of a question hit or miss together, and more calls come with fewer hits."""
    rng = Generator(PCG64(4))

    def side(hit):
        calls = 1 + rng.binomial(2, 0.5, 150)
        lucky = rng.random(150) < hit
        return np.where(lucky, calls, 0).astype(float), calls.astype(float)

    covered = sum(
        interval.low <= 0.15 <= interval.high
        for interval in (
            ratio_interval(side(0.6), side(0.45), settings(trial, 300)) for trial in range(300)
        )
    )
    assert 0.91 <= covered / 300 <= 0.98


def test_estimates_are_the_plain_statistics(rng):
    left, right = scores(rng, (40, 2)), scores(rng, (40, 2))
    strata = np.array(["a"] * 10 + ["b"] * 30)
    difference = (left - right).mean(axis=1)
    plain = paired_interval(left, right, settings())
    assert plain.estimate == pytest.approx(difference.mean())
    macro = paired_interval(left, right, settings(), strata=strata)
    assert macro.estimate == pytest.approx((difference[:10].mean() + difference[10:].mean()) / 2)
    weights = {"a": 0.9, "b": 0.1}
    weighted = paired_interval(left, right, settings(), strata=strata, weights=weights)
    assert weighted.estimate == pytest.approx(
        0.9 * difference[:10].mean() + 0.1 * difference[10:].mean()
    )


def test_seeds_of_a_question_are_one_cluster(rng):
    """Three copies of the same answers are no more evidence than one."""
    left, right = scores(rng, 100, 0.1), scores(rng, 100)
    one = paired_interval(left, right, settings(0, 4000))
    copies = [np.column_stack([side] * 3) for side in (left, right)]
    three = paired_interval(*copies, settings(0, 4000))
    assert three.standard_error == pytest.approx(one.standard_error, rel=0.05)


@pytest.mark.parametrize(
    ("left", "right"), [((3,), (4,)), ((3, 2), (3,)), ((0,), (0,)), ((2, 2, 2), (2, 2, 2))]
)
def test_shapes_that_do_not_pair_are_refused(left, right):
    with pytest.raises(ValueError, match=r"pair|shape"):
        paired_interval(np.zeros(left), np.zeros(right), settings(0, 10))


def test_too_few_questions_give_no_verdict():
    """One question has an interval without width, whatever its difference is."""
    one = paired_interval(np.ones(1), np.zeros(1), settings())
    assert (one.low, one.high) == (1.0, 1.0) and one.verdict == "too few questions"
    verdicts = []
    for sizes in ([200, 9], [200, 10]):
        strata, size = np.repeat(["large", "small"], sizes), sum(sizes)
        verdicts.append(paired_interval(np.ones(size), np.zeros(size), settings(), strata=strata))
    assert [one.verdict for one in verdicts] == ["too few questions", "above 0"]


def test_questions_without_a_call_count_for_no_verdict():
    calls = np.repeat([1.0, 0.0], [9, 200])
    ratio = ratio_interval((calls, calls), (0 * calls, calls), settings())
    assert ratio.low == 1.0 and ratio.verdict == "too few questions"


@pytest.mark.parametrize("lost", [np.nan, np.inf])
def test_values_that_are_no_numbers_are_refused(lost):
    with pytest.raises(ValueError, match=r"1 of 3 values are NaN"):
        paired_interval(np.array([0.0, 1.0, lost]), np.zeros(3), settings())


def test_strata_and_weights_must_match(rng):
    values = scores(rng, 4)
    with pytest.raises(ValueError, match="3 strata for 4"):
        paired_interval(values, values, settings(0, 10), strata=np.array(["a"] * 3))
    with pytest.raises(ValueError, match="weights for"):
        paired_interval(
            values, values, settings(0, 10), strata=np.array(["a"] * 4), weights={"b": 1.0}
        )


def test_a_side_without_calls_has_no_ratio():
    some, none = np.ones(3), np.zeros(3)
    with pytest.raises(ValueError, match="no call"):
        ratio_interval((none, none), (some, some), settings(0, 10))


def test_detectable_effect_matches_its_own_power():
    """At the detectable effect, 80 % of the estimates lie far enough out."""
    effect = minimal_detectable_effect(0.02, level=0.95, power=0.8)
    assert effect == pytest.approx(2.8016 * 0.02, rel=1e-4)
    estimates = Generator(PCG64(0)).normal(effect, 0.02, 20_000)
    assert np.mean(estimates > 1.959964 * 0.02) == pytest.approx(0.8, abs=0.01)
