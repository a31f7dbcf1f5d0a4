"""Groups before and after the filter, and Figures 2 and 3, from rollouts as training writes."""

import dataclasses
import random

import polars as pl
import pytest

from cosearch.core.advantages import AdvantageRules
from cosearch.core.credit import CreditRules, assign_credit
from cosearch.core.grouping import GroupRules
from cosearch.core.rewards import hit_at
from cosearch.core.types import Terminal
from cosearch.files.artifacts import ROLLOUT_SCHEMA, write_frame, write_text
from cosearch.report.curves import png, svg
from cosearch.report.figures import groups_figure, training_figure, training_rounds
from cosearch.tables.groups import AFTER, BEFORE, group_rounds, groups_table
from cosearch.train.record import Round

RULES = GroupRules(semantic=True, delta=0.8, k_min=3)
QUERIES = ("red fox", "the red fox", "blue whale song", "green tree")
TEXTS = (["blue", "green", "red fox", "black"], ["blue", "green", "grey", "black"])


def credit_of(rollouts, rules=RULES):
    return CreditRules(
        reward=rollouts.reward,
        relevance=rollouts.relevance,
        group=rules,
        advantage=AdvantageRules(std="sample", adv_eps=1e-6),
        average_duplicates=False,
        drop_constant_groups=False,
        max_ranker_samples=None,
    )


def trajectories_of(rollouts, seed, *, ranked=True):
    """Three questions, eight trajectories each, up to two searches; some malformed."""
    rng = random.Random(seed)
    made = []
    for number in range(3):
        question = rollouts.question("nq", number)
        for sample in range(8):
            calls = [
                dataclasses.replace(
                    rollouts.call(rng.choice(TEXTS), rng.sample(range(4), 3), turn=turn),
                    query=rng.choice(QUERIES),
                )
                for turn in range(rng.randint(0, 2))
            ]
            if not ranked:
                calls = [dataclasses.replace(call, output=None) for call in calls]
            ended = Terminal.MALFORMED if rng.random() < 0.2 else Terminal.ANSWERED
            answer = rng.choice(["red fox", "red dog", "cat"])
            trajectory = rollouts.trajectory(question, answer, calls=calls, terminal=ended)
            made.append(dataclasses.replace(trajectory, sample=sample))
    return made


@pytest.fixture
def trained(tmp_path, rollouts):
    """A variant's folder after two rounds, and the rounds."""
    return write_rounds(tmp_path / "cosearch", rollouts)


def write_rounds(folder, rollouts, *, rules=RULES, ranked=True):
    credit = credit_of(rollouts, rules)
    rounds = []
    for number in range(2):
        made = trajectories_of(rollouts, number, ranked=ranked)
        rounds.append(Round(number, made, assign_credit(made, credit), {}, {}, {}))
        path = folder / "rollouts" / f"round_{number + 1:03d}.parquet"
        write_frame(path, rounds[-1].frame(), ROLLOUT_SCHEMA)
    write_text(folder / "metrics.csv", "round,dev_f1,r_main\n0,0.1,\n1,,0.2\n2,0.3,0.4\n")
    return folder, rounds


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


def test_rounds_hold_hits_searches_and_development_f1(trained, rollouts):
    folder, rounds = trained
    frame = training_rounds(folder, top_k=2)
    assert frame["round"].to_list() == [0, 1, 2]
    assert frame["dev_f1"].to_list() == [0.1, None, 0.3]
    for one, row in zip(rounds, frame[1:].iter_rows(named=True), strict=True):
        pairs = [
            (call, verdict.reward)
            for t, verdicts in zip(one.trajectories, one.verdicts.calls, strict=True)
            for call, verdict in zip(t.calls, verdicts, strict=True)
        ]
        hits = [hit_at([r.labels[p] for p in call.ranking], 2) for call, r in pairs]
        assert row["hit"] == pytest.approx(sum(hits) / len(hits))
        assert row["r_rel"] == pytest.approx(sum(r.r_rel for _, r in pairs) / len(pairs))
        assert row["searches"] == pytest.approx(len(pairs) / len(one.trajectories))


def test_a_variant_without_development_runs_has_no_development_f1(trained):
    folder, _ = trained
    write_text(folder / "metrics.csv", "round,r_main\n1,0.2\n2,0.4\n")
    frame = training_rounds(folder, top_k=3)
    assert frame["dev_f1"].null_count() == frame.height == 2


def test_a_folder_without_rollouts_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no rollouts"):
        group_rounds(tmp_path, RULES)


def figures_of(trained, rollouts, profile, label="CoSearch"):
    folder, _ = trained
    scope = rollouts.scope(profile)
    rows = training_rounds(folder, top_k=3)
    return [
        training_figure({label: [rows, rows]}, top_k=3, scope=scope),
        groups_figure([group_rounds(folder / "rollouts", RULES)], label=label, scope=scope),
    ]


def dashed(figure):
    return [line for axes in figure.axes for line in axes.lines if line.get_linestyle() == "--"]


@pytest.mark.parametrize("profile", ["tiny", "mini"])
def test_the_papers_curves_are_drawn_under_profile_paper_only(trained, rollouts, profile):
    for figure in figures_of(trained, rollouts, profile):
        assert dashed(figure) == []
        assert "not comparable with the paper" in figure._supxlabel.get_text()
        assert len(figure.axes) == 4
    for figure in figures_of(trained, rollouts, "paper", "CoSearch, small agent"):
        assert dashed(figure) == []


def test_the_papers_curves_lie_over_what_they_show(trained, rollouts):
    training, groups = figures_of(trained, rollouts, "paper")
    by_title = {
        axes.get_title(loc="left"): [x for x in axes.lines if x.get_linestyle() == "--"]
        for axes in training.axes
    }
    assert by_title["Hit@3 of all calls"] == []
    (relevance,) = by_title["relevance reward of all calls"]
    (searches,) = by_title["searches per trajectory"]
    assert relevance.get_ydata()[0] == 0.365
    assert searches.get_ydata()[-1] == pytest.approx((5.3655 - 2) / 2)
    assert len(dashed(groups)) == 8


def test_figures_repeat_their_bytes(trained, rollouts):
    first, second = (figures_of(trained, rollouts, "paper") for _ in range(2))
    for left, right in zip(first, second, strict=True):
        assert (svg(left), png(left)) == (svg(right), png(right))
