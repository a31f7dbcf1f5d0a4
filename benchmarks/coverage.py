"""How often an interval of a difference holds the true difference, by the number of seeds and by
how much trainings differ: ``python -m benchmarks.coverage --trials 1000``.

A simulated evaluation has the question sets of profile tiny. Two systems answer each question
rightly or wrongly; a question is easy or hard for both of them and for all seeds, and better for
one of them by an amount of its own. Each training adds a shift of its own to the difference.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.random import PCG64, Generator
from scipy.special import ndtr, stdtrit

from cosearch.params.rows import Statistics
from cosearch.statistics.bootstrap import Floats, paired_interval
from cosearch.statistics.seeds import with_seeds

SIZES = (200, 200, 200, 200, 200, 200, 125)
STRATA = np.repeat([f"set {number}" for number in range(len(SIZES))], SIZES)
EDGES = np.cumsum(SIZES)[:-1]
TRUTH = 0.02
"""The difference that both systems have over all questions and all trainings."""
ALIKE = 0.95
"""Correlation of what two seeds, or two systems, make of a question."""
OWN = 0.2
"""A question may suit one system better or worse by up to so much."""
SEEDS, SPREADS = (1, 3, 5), (0.0, 0.01, 0.02)

Bounds = tuple[float, float]
Method = Callable[[Floats, Statistics], Bounds]
"""Differences (questions, seeds) -> the bounds of their interval."""


def differences(seeds: int, spread: float, rng: Generator) -> Floats:
    """What one evaluation finds; (questions, seeds). ``spread``: the standard deviation of the
    difference between trainings."""
    count = len(STRATA)
    right = 0.2 + 0.4 * rng.random((count, 1))
    left = right + TRUTH + rng.uniform(-OWN, OWN, (count, 1)) + rng.normal(0, spread, seeds)
    hard = np.sqrt(ALIKE) * rng.standard_normal((count, 1))
    found = [
        ndtr(hard + np.sqrt(1 - ALIKE) * rng.standard_normal((count, seeds))) < chance
        for chance in (left, right)
    ]
    return found[0].astype(float) - found[1]


def by_seed(found: Floats) -> Floats:
    """The macro average at each seed."""
    return np.array([rows.mean(axis=0) for rows in np.split(found, EDGES)]).mean(axis=0)


def questions_alone(found: Floats, statistics: Statistics) -> Bounds:
    """The bootstrap over questions."""
    interval = paired_interval(found, np.zeros_like(found), statistics, strata=STRATA)
    return interval.low, interval.high


def questions_and_seeds(found: Floats, statistics: Statistics) -> Bounds:
    """What the tables print."""
    interval = paired_interval(found, np.zeros_like(found), statistics, strata=STRATA)
    interval = with_seeds(interval, by_seed(found).tolist())
    return interval.low, interval.high


def seeds_alone(found: Floats, statistics: Statistics) -> Bounds:
    """The t interval of the values at each seed."""
    values = by_seed(found)
    half = stdtrit(len(values) - 1, (1 + statistics.level) / 2) * values.std(ddof=1)
    half /= np.sqrt(len(values))
    return values.mean() - half, values.mean() + half


def welch(found: Floats, statistics: Statistics) -> Bounds:
    """The variances of both, with one quantile of t by the degrees of freedom of Welch."""
    interval = paired_interval(found, np.zeros_like(found), statistics, strata=STRATA)
    values = by_seed(found)
    spread = values.var(ddof=1) / len(values)
    total = interval.standard_error**2 + spread
    freedom = (len(values) - 1) * (total / spread) ** 2
    half = stdtrit(freedom, (1 + statistics.level) / 2) * np.sqrt(total)
    return values.mean() - half, values.mean() + half


def drawn_seeds(found: Floats, statistics: Statistics) -> Bounds:
    """The bootstrap that draws seeds and questions."""
    rng, seeds = Generator(PCG64(statistics.seed)), found.shape[1]
    picked = rng.integers(0, seeds, (statistics.draws, seeds))
    means = 0.0
    for rows in np.split(found, EDGES):
        drawn = rng.integers(0, len(rows), (statistics.draws, len(rows)))
        sums = np.stack([rows[drawn, seed].mean(axis=1) for seed in range(seeds)], axis=1)
        means = means + np.take_along_axis(sums, picked, axis=1).mean(axis=1) / len(SIZES)
    low, high = np.quantile(means, [(1 - statistics.level) / 2, (1 + statistics.level) / 2])
    return float(low), float(high)


METHODS: Mapping[str, Method] = {
    "questions alone": questions_alone,
    "questions and seeds": questions_and_seeds,
    "t of the seeds alone": seeds_alone,
    "Welch": welch,
    "bootstrap of both": drawn_seeds,
}


def coverage(method: Method, seeds: int, spread: float, trials: int, draws: int) -> float:
    """The share of simulated evaluations whose 95 % interval holds the truth."""
    rng, held = Generator(PCG64(1)), 0
    for trial in range(trials):
        found = differences(seeds, spread, rng)
        statistics = Statistics(
            level=0.95, draws=draws, seed=trial, min_seeds=3, power=0.8, min_questions=20
        )
        low, high = method(found, statistics)
        held += low <= TRUTH <= high
    return held / trials


def table(trials: int, draws: int) -> str:
    """Coverage of each method by seeds and spread, as Markdown."""
    spreads = " | ".join(f"SD {spread:g}" for spread in SPREADS)
    lines = [f"| seeds | interval | {spreads} |", f"| ---: | --- |{' ---: |' * len(SPREADS)}"]
    for seeds in SEEDS:
        for name, method in METHODS.items():
            if seeds > 1 or method is questions_alone:
                cells = [coverage(method, seeds, spread, trials, draws) for spread in SPREADS]
                shown = " | ".join(f"{cell:.3f}" for cell in cells)
                lines.append(f"| {seeds} | {name} | {shown} |")
    return "\n".join(lines) + "\n"


def main(words: Sequence[str] | None = None) -> None:
    """Print the table, or write it to ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(words)
    made = table(given.trials, given.draws)
    if given.out is None:
        print(made, end="")
    else:
        given.out.write_text(made, "utf-8")


if __name__ == "__main__":
    main()
