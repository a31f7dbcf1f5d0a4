"""The number of documents shown (Table 4)."""

from dataclasses import replace

import polars as pl
import pytest

from cosearch.tables.grid import DocumentGrid, grid_change_table, grid_table

LARGE = "Qwen2.5-7B-Instruct"
SKILLS = {"Retrieval Only": 0.3, "CoSearch": 0.5}


def make_grid(rollouts, ks=(1, 3, 5)):
    """Systems of their own per K; more documents help."""
    return {
        (label, k): [rollouts.result(f"{label}-{k}", skill=skill + 0.02 * k, top_k=k)]
        for label, skill in SKILLS.items()
        for k in ks
    }


def scope_of(rollouts, grid, profile="tiny"):
    return rollouts.scope(profile, labels={f"{label}-{k}": f"{label} K={k}" for label, k in grid})


def build(rollouts, cells, profile="tiny", backbone=None, status=None):
    return grid_table(set_of(rollouts, cells, profile), grid_of(cells, status), backbone)


def changes_of(rollouts, cells):
    return grid_change_table(set_of(rollouts, cells), grid_of(cells))


def set_of(rollouts, cells, profile="tiny"):
    every = [one for seeds in cells.values() for one in seeds]
    return rollouts.set_of(every, scope=scope_of(rollouts, cells, profile))


def grid_of(cells, status=None):
    return DocumentGrid(cells, status or {}, default_k=3)


def cells_of(table, label):
    (row,) = (row for row in table.rows if row.label == label)
    return {column.name: cell for column, cell in zip(table.columns, row.cells, strict=True)}


def test_cells_are_averages_and_changes_are_relative_to_the_default(rollouts):
    grid = make_grid(rollouts)
    cells = cells_of(build(rollouts, grid), "CoSearch")
    (one,) = grid["CoSearch", 5]
    means = [one.mean("f1_bag", name) for name in rollouts.kinds]
    assert cells["K=5"] == pytest.approx(sum(means) / 7)
    assert cells["K=5 to K=3 (%)"] == pytest.approx(100 * (cells["K=5"] / cells["K=3"] - 1))
    assert list(cells) == ["K=1", "K=3", "K=5", "K=1 to K=3 (%)", "K=5 to K=3 (%)",
                           "shown at K=1", "shown at K=3", "shown at K=5", "seeds"]  # fmt: skip


def test_changes_carry_intervals(rollouts):
    grid = make_grid(rollouts)
    table = changes_of(rollouts, grid)
    assert [row.label for row in table.rows] == [
        f"{label}, K={k}" for label in SKILLS for k in (1, 5)
    ]
    cells = cells_of(table, "CoSearch, K=5")
    shown = cells_of(build(rollouts, grid), "CoSearch")
    assert cells["difference"] == pytest.approx(shown["K=5"] - shown["K=3"])
    assert cells["95% low"] <= cells["difference"] <= cells["95% high"]


def test_missing_cells_are_empty_and_missing_rows_say_so(rollouts):
    grid = make_grid(rollouts)
    grid["CoSearch", 3] = []
    grid |= {("Oracle", k): [] for k in (1, 3, 5)}
    table = build(rollouts, grid)
    cells = cells_of(table, "CoSearch")
    assert cells["K=3"] is None and cells["K=1 to K=3 (%)"] is None
    assert cells["K=1"] is not None
    assert table.rows[-1].status == "not run"
    status = build(rollouts, grid, status={"CoSearch": "withheld: why"}).rows[1].status
    assert status == "withheld: why"
    changes = changes_of(rollouts, grid)
    assert {r.label: r.status for r in changes.rows}["CoSearch, K=1"] == "not run"


def test_the_papers_values_stand_beside_under_profile_paper_only(rollouts):
    grid = make_grid(rollouts)
    for profile in ("tiny", "mini"):
        assert build(rollouts, grid, profile, LARGE) == build(rollouts, grid, profile)
    cells = cells_of(build(rollouts, grid, "paper", LARGE), "CoSearch")
    assert [cells[f"paper K={k}"] for k in (1, 3, 5)] == [0.538, 0.561, 0.568]


def test_results_of_another_k_or_key_are_refused(rollouts):
    grid = make_grid(rollouts)
    moved = grid | {("CoSearch", 1): grid["CoSearch", 5]}
    with pytest.raises(ValueError, match="CoSearch stands at K=1, its results were made under 5"):
        build(rollouts, moved)
    other = [rollouts.result("CoSearch-1", top_k=1, corpus="c1")]
    with pytest.raises(ValueError, match="differ in corpus"):
        build(rollouts, grid | {("CoSearch", 1): other})


def test_documents_that_were_left_out_are_not_counted_as_shown(rollouts):
    """Three documents in each search; of half of the searches one was dropped."""
    grid = make_grid(rollouts)
    (one,) = grid["CoSearch", 5]
    left_out = pl.int_range(pl.len()) % 2
    cut = replace(one, calls=one.calls.with_columns(dropped_documents=left_out))
    calls = cut.calls.height
    cells = cells_of(build(rollouts, grid | {("CoSearch", 5): [cut]}), "CoSearch")
    assert cells["shown at K=3"] == 3
    assert cells["shown at K=5"] == pytest.approx(3 - (calls // 2) / calls)
