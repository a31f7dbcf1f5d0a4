"""Tables of declared comparisons, and of what so many questions can show."""

from dataclasses import replace

import polars as pl
import pytest

from cosearch.params.rows import Detectable
from cosearch.tables.contrasts import comparison_table, detectable_table
from tests.evaluated import COMPARISONS


def test_comparison_rows_carry_difference_interval_and_verdict(results, rollouts):
    table = comparison_table(rollouts.set_of(results), COMPARISONS)
    start, hits, _oracle, _fixed = table.rows
    cells = dict(zip((column.name for column in table.columns), start.cells, strict=True))
    assert cells["difference"] == pytest.approx(cells["left"] - cells["right"])
    assert cells["95% low"] < cells["difference"] < cells["95% high"]
    assert cells["verdict"] == "above 0"
    assert len(str(cells["by seed"]).split()) == 3
    assert hits.cells[0] == "hit_3"


def test_a_difference_of_one_seed_is_printed_once(rollouts):
    """The difference of one set, 0.0875, is 0.0125 in the average of seven: between two roundings,
    and the two ways to compute it differ in the last bits."""
    start = rollouts.result("start", questions=3)
    gain = pl.when(pl.col("dataset") == "nq").then(0.0875).otherwise(0.0)
    better = start.predictions.with_columns(f1_bag=pl.col("f1_bag") + gain)
    results = [start, replace(start, system="cosearch", predictions=better)]
    table = comparison_table(rollouts.set_of(results), COMPARISONS[:1])
    (row,) = table.rows
    cells = dict(zip((c.name for c in table.columns), table.texts(row)[1:], strict=True))
    assert cells["difference"] == cells["by seed"]


def detectable(results, rollouts, **changes):
    pair = Detectable(left="cosearch", right="start")
    return detectable_table(rollouts.set_of(results, **changes), pair)


def test_what_so_many_questions_can_show(rollouts):
    """Per set, kind and average; about half of it with four times the questions."""
    few, many = (
        detectable(
            [
                rollouts.result(system, skill=skill, questions=size)
                for system, skill in (("cosearch", 0.6), ("start", 0.3))
            ],
            rollouts,
        )
        for size in (40, 160)
    )
    labels = [row.label for row in few.rows]
    assert labels == [*rollouts.kinds, "single", "multi", "macro", "macro_groups", "micro"]
    assert [row.cells[0] for row in few.rows] == [40] * 7 + [120, 160, 280, 280, 280]
    for small, large in zip(few.rows, many.rows, strict=True):
        _, _, error, smallest = small.cells
        assert smallest == pytest.approx((1.959964 + 0.841621) * error, rel=1e-5)
        assert large.cells[3] < 0.75 * smallest


def test_a_pair_without_both_sides_shows_nothing(results, rollouts):
    table = detectable(results, rollouts, status={"start": "diverged"})
    assert [row.status for row in table.rows] == ["the other side is missing", "diverged"]
    apart = [one for one in results if (one.system, one.seed) in (("cosearch", 0), ("start", 1))]
    assert [row.status for row in detectable(apart, rollouts).rows] == ["no seed in common"]
