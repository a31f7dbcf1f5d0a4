"""What two runs of a table may differ in, on small tables."""

import pytest

from cosearch.statistics.agreement import (
    differing_cells,
    json_table,
    questions_of,
    wilson,
    without_numbers,
)

MAIN = {"System": "RAG", "nq": "0.30", "avg (macro)": "0.30", "status": ""}
COMPARED = {
    "Left against right": "A against B",
    "metric": "f1",
    "difference": "0.01",
    "95% low": "-0.02",
    "95% high": "0.04",
    "verdict": "spans 0",
    "seeds compared": "3",
}
Row = dict[str, str]


def table(row: Row) -> str:
    return f"{','.join(row)}\n{','.join(row.values())}\n"


@pytest.mark.parametrize(
    ("there", "here", "allowed"),
    [
        (MAIN, {"nq": "0.36"}, True),
        (MAIN, {"nq": "0.60"}, False),
        (MAIN | {"nq": "0.000"}, {"nq": "0.005"}, True),
        (MAIN | {"nq": "0.005"}, {"nq": "0.000"}, True),
        (MAIN, {"avg (macro)": "0.60"}, None),
        (MAIN, {"nq": ""}, False),
        (MAIN, {"status": "diverged"}, False),
        (COMPARED, {"difference": "0.03", "95% low": "0.00", "95% high": "0.06"}, True),
        (COMPARED, {"difference": "0.09", "95% low": "0.06", "95% high": "0.12"}, False),
        (COMPARED, {"verdict": "above 0"}, False),
        (COMPARED, {"seeds compared": "2"}, False),
    ],
)
def test_an_interval_or_a_verdict_judges_a_cell(
    there: Row, here: Row, allowed: bool | None
) -> None:
    """The first cell that differs is judged; bounds of an interval are only shown."""
    found = differing_cells("t", table(there), table(there | here), {"nq": 200})
    assert [one.column for one in found] == list(here)
    assert [one.allowed for one in found] == [allowed, *[None] * (len(here) - 1)]


def test_equal_tables_differ_in_nothing() -> None:
    text = table(MAIN)
    assert differing_cells("t", text, text, {}) == []


def test_another_layout_is_told_as_one_difference() -> None:
    text = table(MAIN)
    (found,) = differing_cells("t", text, text.replace("nq", "hotpotqa"), {})
    assert (found.column, found.allowed) == ("layout", False)


def test_an_interval_of_a_score_is_that_of_wilson() -> None:
    """8 of 10: as scipy's ``binomtest(8, 10).proportion_ci(method="wilson")``."""
    assert wilson(0.8, 10) == pytest.approx((0.490, 0.943), abs=5e-4)
    assert (wilson(0.0, 10)[0], wilson(1.0, 10)[1]) == pytest.approx((0.0, 1.0), abs=1e-12)


def test_questions_are_counted_by_data_set() -> None:
    text = "Data set or average,questions,difference\nnq,200,0.1\navg (macro),1325,0.1\n"
    assert questions_of(text) == {"nq": 200}
    assert questions_of("") == {}


def test_numbers_are_taken_out_of_a_text() -> None:
    assert without_numbers("| +0.10 |  1e-05 |") == without_numbers("| -0.2 | 3 |")
    assert without_numbers("above 0") != without_numbers("spans 0")


def test_the_numbers_of_a_file_are_a_table() -> None:
    assert json_table('{"em": 0.5, "f1": 1}').split() == ["em,f1", "0.5,1"]
