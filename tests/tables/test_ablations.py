"""Ablations (Table 3) and the walk from one preset to the other."""

import dataclasses

import pytest

from cosearch.statistics.comparisons import compare
from cosearch.tables.ablations import ablation_table, walk_table

LABELS = {
    "cosearch": "CoSearch (full)",
    "start": "w/o r_main",
    "direct": "w/o r_rel",
    "small": "3B ranker",
}
LARGE = "Qwen2.5-7B-Instruct"


def build(make, results, rollouts, *, status=None, profile="tiny", backbone=None, labels=None):
    labels = labels or LABELS
    scope = rollouts.scope(profile, labels=rollouts.labels | labels)
    chosen = rollouts.set_of(results, scope=scope, status=status)
    return make(chosen, rollouts.block(backbone, "large", labels))


def cells_of(table, label):
    (row,) = (row for row in table.rows if row.label == label)
    return {column.name: cell for column, cell in zip(table.columns, row.cells, strict=True)}


def test_drops_differences_and_verdicts_stand_against_the_full_model(results, rollouts):
    table = build(ablation_table, results, rollouts)
    full, row = cells_of(table, "CoSearch (full)"), cells_of(table, "w/o r_main")
    average = (3 * row["single"] + 4 * row["multi"]) / 7
    assert row["avg (macro)"] == pytest.approx(average)
    assert row["difference"] == pytest.approx(row["avg (macro)"] - full["avg (macro)"])
    assert row["drop (%)"] == pytest.approx(100 * (1 - row["avg (macro)"] / full["avg (macro)"]))
    assert row["95% low"] < row["difference"] < row["95% high"] < 0
    assert row["verdict"] == "below 0"
    assert [full[name] for name in ("drop (%)", "difference", "verdict")] == [None] * 3


def test_the_interval_is_that_of_the_declared_comparison(results, rollouts):
    row = cells_of(build(ablation_table, results, rollouts), "w/o r_main")
    outcome = compare(rollouts.set_of(results), rollouts.comparison("start", "cosearch"))
    assert (row["95% low"], row["95% high"]) == (outcome.interval.low, outcome.interval.high)


def test_a_drop_uses_the_seeds_that_both_rows_have(results, rollouts):
    """The full model has three seeds, this row only the first."""
    row = cells_of(build(ablation_table, results, rollouts), "w/o r_rel")
    first = [one for one in results if one.seed == 0]
    assert row == cells_of(build(ablation_table, first, rollouts), "w/o r_rel")


def test_a_diverged_row_says_so(results, rollouts):
    why = "diverged at round 7: the loss is no number"
    table = build(ablation_table, results, rollouts, status={"small": why})
    assert table.rows[-1].status == why
    assert why in table.markdown()
    without_full = build(ablation_table, results, rollouts, status={"cosearch": why})
    row = cells_of(without_full, "w/o r_main")
    assert row["avg (macro)"] is not None
    assert row["drop (%)"] is None and row["verdict"] is None


def test_a_block_without_a_full_model_is_refused(rollouts):
    with pytest.raises(ValueError, match="rows"):
        rollouts.block(labels={})


def test_the_papers_rows_are_recomputed_under_one_average(results, rollouts):
    """Printed: .560 and .552, drops of 1.4 and 2.8 %, from averages of another kind."""
    table = build(ablation_table, results, rollouts, profile="paper", backbone=LARGE)
    rows = {label: cells_of(table, label) for label in list(LABELS.values())[:3]}
    found = [(r["paper avg"], r["paper drop (%)"]) for r in rows.values()]
    assert found[0] == (pytest.approx(0.5676, abs=5e-5), None)
    assert found[1] == (pytest.approx(0.5526, abs=5e-5), pytest.approx(2.64, abs=0.01))
    assert found[2] == (pytest.approx(0.5464, abs=5e-5), pytest.approx(3.73, abs=0.01))


def test_rows_the_paper_does_not_print_have_no_published_number(results, rollouts):
    labels = {"cosearch": "CoSearch (full)", "start": "something else", "direct": "3B ranker"}
    table = build(ablation_table, results, rollouts, profile="paper", backbone=LARGE, labels=labels)
    for label in ("something else", "3B ranker"):
        assert cells_of(table, label)["paper avg"] is None


def test_every_step_of_the_walk_is_held_against_the_one_before_and_the_first(results, rollouts):
    labels = {"start": "paper", "cosearch": "+ gate", "oracle": "+ group"}
    table = build(walk_table, results, rollouts, labels=labels)
    first, second, third = (cells_of(table, label) for label in labels.values())
    assert {first[name] for name in first if "difference" in name} == {None}
    assert second["difference to previous"] == second["difference to first"] > 0
    assert third["difference to previous"] < third["difference to first"]
    assert third["verdict to first"] == "above 0"
    assert third["avg (macro)"] == pytest.approx((3 * third["single"] + 4 * third["multi"]) / 7)


def test_a_step_that_was_not_run_leaves_no_difference_to_it(results, rollouts):
    labels = {"start": "paper", "cosearch": "+ gate", "oracle": "+ group"}
    kept = [one for one in results if one.system != "cosearch"]
    table = build(walk_table, kept, rollouts, labels=labels)
    third = cells_of(table, "+ group")
    assert table.rows[1].status == "not run"
    assert third["difference to previous"] is None
    assert third["difference to first"] is not None


def test_one_kind_of_sets_leaves_the_other_column_empty(results, rollouts):
    single = [
        dataclasses.replace(
            one,
            predictions=one.predictions.filter(one.predictions["kind"] == "single"),
            calls=one.calls.clear(),
        )
        for one in results
    ]
    cells = cells_of(build(ablation_table, single, rollouts), "w/o r_main")
    assert cells["multi"] is None
    assert cells["avg (macro)"] == cells["single"]
