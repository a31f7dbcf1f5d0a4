"""Ours beside the published numbers."""

import pytest

from cosearch.paper.published import main_cells
from cosearch.statistics.bootstrap import Interval
from cosearch.tables.behaviour import searches_table
from cosearch.tables.verdicts import published_table, verdict

LARGE = "Qwen2.5-7B-Instruct"


@pytest.mark.parametrize(
    ("paper", "expected"),
    [
        (0.5, "agrees"),
        (0.399, "above"),
        (0.3996, "agrees"),
        (0.6004, "agrees"),
        (0.601, "below"),
    ],
)
def test_a_number_agrees_when_it_may_be_a_rounding_of_one_in_the_interval(paper, expected):
    assert verdict(paper, Interval(0.5, 0.4, 0.6, 0.95, 0.05, True)) == expected


def build(results, rollouts, profile="paper", backbone=LARGE, status=None):
    return published_table(
        rollouts.set_of(results, scope=rollouts.scope(profile), status=status),
        rollouts.block(backbone),
    )


def test_every_cell_carries_the_papers_value_our_interval_and_a_verdict(results, rollouts):
    table = build(results, rollouts)
    rows = {row.label: row for row in table.rows}
    assert len(rows) == 5 * 8  # the untrained row is not the paper's
    paper, ours, difference, low, high, word, seeds = rows["Oracle, nq"].cells
    (one,) = (one for one in results if one.system == "oracle")
    assert paper == main_cells("Oracle", LARGE)["nq"] == 0.68
    assert ours == pytest.approx(one.mean("f1_bag", "nq"))
    assert difference == pytest.approx(ours - paper)
    assert low < ours < high
    assert seeds == 1
    assert word in ("agrees", "below", "above")
    for label in ("Oracle", "CoSearch"):
        sets = [rows[f"{label}, {name}"].cells for name in rollouts.kinds]
        average = rows[f"{label}, avg (macro)"].cells
        for column in (0, 1, 2):
            assert average[column] == pytest.approx(sum(cells[column] for cells in sets) / 7)
    assert rows["Direct Inference, avg (macro)"].cells[-2] == "below"
    assert rows["Oracle, avg (macro)"].cells[-2] == "above"


def test_an_agent_that_the_paper_does_not_print_has_no_row(results, rollouts):
    assert build(results, rollouts, backbone="another model").rows == ()


def test_rows_without_numbers_say_why(results, rollouts):
    table = build(results, rollouts, status={"oracle": "withheld: why"})
    assert [row.status for row in table.rows if row.label == "Oracle"] == ["withheld: why"]


@pytest.mark.parametrize(
    ("profile", "backbone"), [("tiny", LARGE), ("mini", LARGE), ("paper", None)]
)
def test_nothing_is_compared_that_is_not_comparable(results, rollouts, profile, backbone):
    with pytest.raises(ValueError, match="no number is comparable"):
        build(results, rollouts, profile, backbone)


def test_table_7_stands_beside_ours_for_the_agent_that_it_is_of(results, rollouts):
    def cells(profile, backbone, label):
        shown = rollouts.set_of(results, scope=rollouts.scope(profile))
        table = searches_table(shown, rollouts.block(backbone))
        (row,) = (row for row in table.rows if row.label == label)
        return {c.name: cell for c, cell in zip(table.columns, row.cells, strict=True)}

    fixed = cells("paper", LARGE, "Fixed Ranker")
    assert (fixed["paper 1 (%)"], fixed["paper 2 (%)"], fixed["paper mean"]) == (4.2, 35.7, 2.62)
    assert fixed["paper 1-2 (%)"] == pytest.approx(39.9)
    assert (fixed["6 (%)"], fixed["paper 6 (%)"]) == (0.0, 0.0)
    assert cells("paper", LARGE, "Direct Inference")["paper mean"] is None
    assert cells("paper", "Qwen2.5-3B-Instruct", "Fixed Ranker")["paper mean"] is None
    assert "paper mean" not in cells("tiny", LARGE, "Fixed Ranker")
