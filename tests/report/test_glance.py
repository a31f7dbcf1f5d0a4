"""The first screen: its intervals are those of the tables, and they lie where their numbers say."""

import re
from dataclasses import replace

import pytest

from cosearch.params.rows import Comparison, GridRow, GridTable, TableBlock, TableRow, Tables
from cosearch.report.glance import glance
from cosearch.report.intervals import IntervalPicture, IntervalRow, Scale
from cosearch.report.markup import Content, render
from cosearch.statistics.bootstrap import Interval
from cosearch.tables.contrasts import comparison_table
from cosearch.tables.evidence import Evidence
from cosearch.tables.main import main_table


def evidence(results, rollouts, *, status=None, wide=()):
    """What the pictures are made of: one comparison, one ablation, and CoSearch at K = 3; its
    results at K = 5 are ``wide``."""
    block = rollouts.block()
    full = TableRow(system="cosearch", label="CoSearch (full)")
    other = TableRow(system="fixed_ranker", label="w/o training")
    ablations = replace_rows(block, (full, other))
    row = GridRow(label="CoSearch", systems=("cosearch", "cosearch_wide"))
    grid = GridTable(backbone=None, rows=(row,))
    labels = rollouts.labels | {"cosearch_wide": "CoSearch, K = 5"}
    scope = rollouts.scope(labels=labels)
    tables = Tables.model_construct(main=(block,), ablations=ablations, grid=grid)
    return Evidence(
        results=rollouts.set_of([*results, *wide], scope=scope, status=status or {}),
        comparisons=[Comparison(left="cosearch", right="retrieval_only", metric="f1")],
        gates={},
        tables=tables,
        k_of={"cosearch": 3, "cosearch_wide": 5},
        top_k=3,
        runs={},
        groups={},
    )


def replace_rows(block, rows):
    return TableBlock(name=block.name, backbone=None, varying=(), rows=rows)


def test_differences_are_those_of_the_comparisons(results, rollouts):
    found = evidence(results, rollouts)
    differences = glance(found)[0]
    declared, ablation = differences.rows
    (row,) = comparison_table(found.results, found.comparisons).rows
    (interval,) = declared.intervals
    assert (interval.estimate, interval.low, interval.high) == row.cells[3:6]
    assert (declared.label, declared.group) == (row.label, "Declared comparisons")
    assert (ablation.label, ablation.group) == (
        "w/o training",
        "Ablations, against CoSearch (full)",
    )


def test_data_sets_show_the_numbers_of_the_table_within_their_intervals(results, rollouts):
    found = evidence(results, rollouts)
    picture = glance(found)[-1]
    table = main_table(found.results, found.tables.main[0])
    cells = {row.label: row.cells for row in table.rows}
    assert picture.columns[-1] == "avg (macro)"
    for row in picture.rows:
        estimates = [one.estimate for one in row.intervals]
        assert tuple(estimates) == cells[row.label][: len(estimates)]
        assert all(one.low <= one.estimate <= one.high for one in row.intervals)


def test_a_single_k_makes_no_picture_and_several_do(results, rollouts):
    assert [one.name for one in glance(evidence(results, rollouts))] == [
        "differences",
        "by_data_set_large",
    ]
    wide = [
        replace(one, system="cosearch_wide", key={**one.key, "top_k": 5})
        for one in results
        if one.system == "cosearch"
    ]
    by_documents = glance(evidence(results, rollouts, wide=wide))[1]
    assert [row.label for row in by_documents.rows] == ["K = 3", "K = 5"]


def test_rows_without_results_are_left_out_and_withheld_ones_say_why(results, rollouts):
    held = [one for one in results if one.system != "oracle"]
    found = evidence(held, rollouts, status={"cosearch": "withheld"})
    differences, *_, by_data_set = glance(found)
    assert {row.status for row in differences.rows} == {"CoSearch: withheld"}
    states = {row.label: row.status for row in by_data_set.rows}
    assert states["CoSearch"] == "withheld"
    assert "Oracle" not in states


def test_places_follow_the_scale():
    scale = Scale.over([-0.1, 0.3], 5)
    assert [tick for tick in scale.ticks if not -0.1 <= tick <= 0.3] == []
    places = [float(scale.at(value).rstrip("%")) for value in (-0.1, 0.0, 0.1, 0.3)]
    assert places == pytest.approx([4, 27, 50, 96])
    assert Scale.over([], 5).at(0.0) == Scale.over([0.0], 5).at(0.0)


def test_strips_carry_their_numbers_as_words():
    interval = Interval(0.1, 0.05, 0.15, 0.95, 0.02, True)
    rows = [
        IntervalRow("A against B", (interval,), ("a", "b"), "Declared"),
        IntervalRow("C against B", (), ("c", "b"), "Declared", "C: withheld"),
    ]
    picture = IntervalPicture("p", "P", "", ("Difference",), rows, signed=True)
    html = render(Content("t", "", "n", [], [], intervals=[picture])).html
    title = "Declared, A against B: +0.100, interval from +0.050 to +0.150"
    assert f"<title>{title}</title>" in html
    assert len(re.findall('class="strip above"', html)) == 1
    assert "[+0.050, +0.150]" in html
    assert re.search(r'<td class="status" colspan="2">C: <button[^>]*>withheld<', html)
