"""What the chance of training adds to an interval over questions.

The spread of a difference over seeds is added to its variance over questions. Half of the interval
is that of Cochran and Cox: each of the two variances counts with its own quantile, that of the
seeds with Student's t, because the spread of three seeds is itself uncertain.
benchmarks/coverage.py shows why it is neither the t interval of the seeds alone, nor a bootstrap
that draws seeds too, nor the degrees of freedom of Welch, which hold the truth too seldom.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from statistics import NormalDist, variance

from scipy.special import stdtrit

from cosearch.params.rows import Statistics
from cosearch.statistics.bootstrap import Interval

COUNTS = {1: "one seed", 2: "two seeds"}
"""Number of seeds -> what a table says of it."""


def with_seeds(interval: Interval, by_seed: Sequence[float]) -> Interval:
    """``interval``, which is over questions alone, with the spread of ``by_seed``, the value at
    each seed. It stays as it is where no seed differs from another, or there is one alone."""
    interval = replace(interval, seeds=len(by_seed))
    spread = variance(by_seed) / len(by_seed) if len(by_seed) > 1 else 0.0
    if not spread:
        return interval
    share, known = (1 + interval.level) / 2, interval.standard_error**2
    total, t = known + spread, float(stdtrit(len(by_seed) - 1, share))
    half = (NormalDist().inv_cdf(share) * known + t * spread) / sqrt(total)
    low, high = interval.estimate - half, interval.estimate + half
    return replace(interval, low=low, high=high, standard_error=sqrt(total))


def unproven(trained: bool, seeds: int, statistics: Statistics) -> str:
    """What stands in place of a verdict about models that were trained with too few seeds; empty
    where there are enough, or nothing was trained."""
    if not trained or seeds >= statistics.min_seeds:
        return ""
    return COUNTS.get(seeds, f"{seeds} seeds")
