"""Figures 2 and 3, from rollouts as training writes them."""

import pytest

from cosearch.core.rewards import hit_at
from cosearch.files.artifacts import write_text
from cosearch.report.curves import png, svg
from cosearch.report.figures import groups_figure, training_figure, training_rounds
from cosearch.tables.groups import group_rounds
from tests.rounds import RULES


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


def figures_of(trained, rollouts, profile, label="CoSearch"):
    folder, _ = trained
    scope = rollouts.scope(profile)
    rows = training_rounds(folder, top_k=3)
    return [
        training_figure({label: [rows, rows]}, top_k=3, scope=scope).figure(),
        groups_figure(
            [group_rounds(folder / "rollouts", RULES)], label=label, scope=scope
        ).figure(),
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
