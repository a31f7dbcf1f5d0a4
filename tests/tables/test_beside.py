"""Rows beside the rows that they are held against."""

import pytest

from cosearch.statistics.comparisons import compare
from cosearch.statistics.results import Result
from cosearch.tables.beside import beside_table
from tests.evaluated import make_comparison, make_result, make_set


def test_a_row_is_compared_with_each_of_its_references(results: list[Result]) -> None:
    found = make_set(results)
    table = beside_table(found, {"direct": (), "cosearch": ("start", "fixed_ranker")})
    first, second, third = table.rows
    assert (first.label, second.label, third.label) == ("direct", "cosearch", "")
    assert (first.cells[0], second.cells[0], third.cells[0]) == (1, 3, None)
    assert first.cells[4:] == (None, None, None)
    for row, other in ((second, "start"), (third, "fixed_ranker")):
        outcome = compare(found, make_comparison("cosearch", other))
        assert outcome.interval is not None
        low, high = outcome.interval.low, outcome.interval.high
        assert row.cells[4:] == (other, outcome.interval.estimate, f"{low:+.3f} to {high:+.3f}")
    assert second.cells[1] == pytest.approx(
        compare(found, make_comparison("cosearch", "start")).left
    )


def test_a_row_without_numbers_says_why(results: list[Result]) -> None:
    why = "diverged in round 3: not finite"
    table = beside_table(make_set(results, status={"oracle": why}), {"oracle": ("direct",)})
    assert [(row.label, row.status) for row in table.rows] == [("oracle", why)]


def test_rows_that_must_not_stand_together_are_not_compared(results: list[Result]) -> None:
    other = make_result("start", corpus="c1")
    alone = [result for result in results if result.system == "direct"]
    (row,) = beside_table(make_set([*alone, other]), {"direct": ("start",)}).rows
    assert row.cells[4:6] == ("start", None)
    assert "differ in corpus: 'c0', 'c1'" in str(row.cells[6])
