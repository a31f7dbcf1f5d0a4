"""Groups before and after the filter, from rollouts as training writes them."""

import dataclasses

import polars as pl
import pytest

from cosearch.core.credit import assign_credit
from cosearch.tables.groups import AFTER, BEFORE, group_rounds, groups_table
from tests.rounds import RULES, credit_of, write_rounds


def kept_calls(one):
    return [v for row in one.verdicts.calls for v in row if v.group is not None]


def test_groups_after_the_filter_are_those_that_were_trained_on(trained, rollouts):
    folder, rounds = trained
    after = group_rounds(folder / "rollouts", RULES).filter(pl.col("phase") == AFTER)
    for one, row in zip(rounds, after.iter_rows(named=True), strict=True):
        kept = kept_calls(one)
        assert row["round"] == one.number + 1
        assert row["calls"] == len(kept) > 0
        assert row["groups"] == len({v.group for v in kept})
        for name in ("r_main", "r_rel", "r_rank"):
            values = [getattr(v.reward, name) for v in kept]
            assert row[name] == pytest.approx(sum(values) / len(values))


def test_groups_before_the_filter_are_those_of_k_min_one(trained, rollouts):
    """Credit assigned again with ``k_min`` 1 places every call that entered grouping."""
    folder, rounds = trained
    before = group_rounds(folder / "rollouts", RULES).filter(pl.col("phase") == BEFORE)
    every = credit_of(rollouts, dataclasses.replace(RULES, k_min=1))
    for one, row in zip(rounds, before.iter_rows(named=True), strict=True):
        placed = [
            v
            for verdicts in assign_credit(one.trajectories, every).calls
            for v in verdicts
            if v.group is not None
        ]
        assert (row["calls"], row["groups"]) == (len(placed), len({v.group for v in placed}))
        assert row["size"] == pytest.approx(row["calls"] / row["groups"])
        assert row["calls"] > len(kept_calls(one))


def test_calls_of_excluded_trajectories_are_in_neither(trained):
    folder, rounds = trained
    frame = group_rounds(folder / "rollouts", RULES)
    excluded = sum(not t.well_formed and bool(t.calls) for one in rounds for t in one.trajectories)
    assert excluded > 0
    entered = sum(len(t.calls) for one in rounds for t in one.trajectories if t.well_formed)
    assert frame.filter(pl.col("phase") == BEFORE)["calls"].sum() == entered


def test_without_semantic_grouping_the_filter_drops_nothing(tmp_path, rollouts):
    rules = dataclasses.replace(RULES, semantic=False)
    folder, _ = write_rounds(tmp_path / "v", rollouts, rules=rules)
    frame = group_rounds(folder / "rollouts", rules)
    before, after = (frame.filter(pl.col("phase") == phase) for phase in (BEFORE, AFTER))
    assert before.drop("phase").equals(after.drop("phase"))
    assert before["groups"].to_list() == [3, 3]


def test_calls_that_no_ranker_wrote_form_no_group(tmp_path, rollouts):
    folder, _ = write_rounds(tmp_path / "v", rollouts, ranked=False)
    frame = group_rounds(folder / "rollouts", RULES)
    assert frame["calls"].sum() == 0
    assert frame["size"].null_count() == frame.height
    table = groups_table({"Retrieval Only": [frame]}, scope=rollouts.scope())
    assert table.rows[0].cells == (0, 0, *[None] * 7)


def test_the_table_pools_rounds_and_seeds(trained, rollouts):
    folder, rounds = trained
    frame = group_rounds(folder / "rollouts", RULES)
    table = groups_table({"CoSearch": [frame]}, scope=rollouts.scope())
    before, after = (
        dict(zip((c.name for c in table.columns), row.cells, strict=True)) for row in table.rows
    )
    kept = [v for one in rounds for v in kept_calls(one)]
    assert [row.label for row in table.rows] == ["CoSearch, pre-filter", "CoSearch, post-filter"]
    assert after["calls"] == len(kept)
    assert after["calls kept (%)"] == pytest.approx(100 * len(kept) / before["calls"])
    rewards = [v.reward.r_rank for v in kept]
    assert after["composite reward"] == pytest.approx(sum(rewards) / len(kept))
    doubled = groups_table({"CoSearch": [frame, frame]}, scope=rollouts.scope()).rows[1].cells
    assert doubled[0] == 2 * after["groups"]
    assert doubled[2:] == pytest.approx(table.rows[1].cells[2:])


def test_a_folder_without_rollouts_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no rollouts"):
        group_rounds(tmp_path, RULES)
