"""What the spread of seeds does to an interval and to a verdict."""

from dataclasses import replace

import pytest

from benchmarks.coverage import SPREADS, coverage, main, questions_alone, questions_and_seeds
from cosearch.statistics.bootstrap import Interval
from cosearch.statistics.comparisons import compare
from cosearch.statistics.seeds import with_seeds
from cosearch.tables.contrasts import comparison_table
from tests.evaluated import STATISTICS, make_comparison, make_result, make_set

TRIALS, DRAWS = 100, 200
OURS = make_comparison("cosearch", "start")


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("seeds", [3, 5])
def test_intervals_hold_the_truth_as_often_as_they_say(seeds: int, spread: float) -> None:
    """The short form of benchmarks/coverage.py: of 100 simulated evaluations."""
    assert coverage(questions_and_seeds, seeds, spread, TRIALS, DRAWS) >= 0.93


def test_an_interval_of_one_seed_lacks_the_chance_of_training() -> None:
    assert coverage(questions_alone, 1, 0.02, TRIALS, DRAWS) < 0.85


def test_the_benchmark_writes_a_table(tmp_path) -> None:
    main(["--trials", "1", "--draws", "20", "--out", str(tmp_path / "table.md")])
    lines = (tmp_path / "table.md").read_text("utf-8").splitlines()
    assert len(lines) == 2 + 1 + 5 + 5


def test_the_spread_of_seeds_is_added_to_that_of_questions() -> None:
    """By hand: variances 1e-4 and 3e-4, whose quantiles are 1.960 and 4.303."""
    alone = Interval(0.02, 0.0, 0.04, 0.95, 0.01)
    found = with_seeds(alone, [-0.01, 0.02, 0.05])
    assert found.standard_error == pytest.approx(0.02)
    assert (found.high + found.low) / 2 == pytest.approx(0.02)
    assert found.high - found.low == pytest.approx(2 * (1.960e-4 + 3 * 4.303e-4) / 0.02, rel=1e-3)
    assert found.seeds == 3
    assert with_seeds(alone, [0.02]) == alone
    assert with_seeds(alone, [0.02, 0.02]) == replace(alone, seeds=2)


@pytest.mark.parametrize(
    ("trained", "seeds", "verdict"),
    [(True, 1, "one seed"), (True, 2, "two seeds"), (True, 3, "above 0"), (False, 1, "above 0")],
)
def test_a_verdict_about_trained_rows_needs_three_seeds(
    trained: bool, seeds: int, verdict: str
) -> None:
    rows = [
        replace(make_result(name, seed=seed, skill=skill), trained=trained and name == "cosearch")
        for name, skill in (("cosearch", 0.8), ("start", 0.2))
        for seed in range(seeds)
    ]
    results = replace(make_set(rows), statistics=STATISTICS.model_copy(update={"min_seeds": 3}))
    interval = compare(results, OURS).interval
    assert interval is not None
    assert (interval.verdict, interval.seeds) == (verdict, seeds)
    table = comparison_table(results, [OURS])
    cells = dict(zip((c.name for c in table.columns), table.rows[0].cells, strict=True))
    assert (cells["verdict"], cells["seeds compared"]) == (verdict, seeds)
    assert ("the chance of training is not in the interval" in table.note) == (
        trained and seeds < 3
    )
