"""How often an interval tells two equal systems apart, by the number of questions in each set.

``python -m benchmarks.false_verdicts`` prints the share of false verdicts for two shapes of scores.
At the level 0.95 it should be 5 %. ``statistics.min_questions`` of params.yaml rests on it.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.random import PCG64, Generator

from cosearch.params.rows import Statistics
from cosearch.statistics.bootstrap import Floats, paired_interval

QUESTIONS = (2, 3, 5, 7, 10, 15, 20, 30, 50)
SETS = (1, 2, 7)


def steps(rng: Generator, questions: int) -> tuple[Floats, Floats]:
    """F1 of two equal systems: 0, 0.5 or 1, and a question that is hard is hard for both."""
    easy = rng.random(questions)
    left, right = (rng.binomial(2, easy) / 2 for _ in range(2))
    return left, right


def rare(rng: Generator, questions: int) -> tuple[Floats, Floats]:
    """EM of two equal systems that are right in a fifth of the questions each, independently."""
    left, right = (rng.binomial(1, 0.2, questions).astype(np.float64) for _ in range(2))
    return left, right


SHAPES: Mapping[str, Callable[[Generator, int], tuple[Floats, Floats]]] = {
    "steps": steps,
    "rare": rare,
}


def false_share(shape: str, sets: int, questions: int, trials: int, draws: int) -> float:
    """Share of ``trials`` in which the interval of two equal systems excludes 0. ``questions`` are
    in each of ``sets`` data sets, of which the macro average is compared."""
    rng = Generator(PCG64([sets, questions, trials]))
    strata = np.repeat([f"set {number}" for number in range(sets)], questions)
    wrong = 0
    for trial in range(trials):
        rules = Statistics(
            level=0.95, draws=draws, seed=trial, min_seeds=1, power=0.8, min_questions=1
        )
        left, right = SHAPES[shape](rng, len(strata))
        wrong += paired_interval(left, right, rules, strata=strata).verdict != "spans 0"
    return wrong / trials


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.false_verdicts", description=__doc__
    )
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--draws", type=int, default=1000)
    chosen = parser.parse_args(arguments)
    columns = [(shape, sets) for shape in SHAPES for sets in SETS]
    heads = [f"{shape}, sets: {sets}" for shape, sets in columns]
    print("| questions in each set |", " | ".join(heads), "|")
    print("| ---: |", " | ".join("---:" for _ in columns), "|", flush=True)
    for questions in QUESTIONS:
        shares = [
            false_share(shape, sets, questions, chosen.trials, chosen.draws)
            for shape, sets in columns
        ]
        print(f"| {questions} |", " | ".join(f"{share:.1%}" for share in shares), "|", flush=True)


if __name__ == "__main__":
    main()
