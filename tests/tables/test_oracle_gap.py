"""The oracle's gap and the headroom behind it."""

import dataclasses

import pytest

from cosearch.params.rows import OraclePair
from cosearch.scores.metrics import calls_frame, predictions_frame
from cosearch.statistics.results import Result
from cosearch.tables.oracle_gap import gaps, oracle_table


def pair_of(backbone=None):
    return OraclePair(name="large", backbone=backbone, standard="retrieval_only", oracle="oracle")


def gaps_of(results, rollouts):
    return gaps(rollouts.set_of(results), pair_of())


def test_gaps_of_sets_kinds_and_average(results, rollouts):
    found = gaps_of(results, rollouts)
    assert [gap.name for gap in found] == [*rollouts.kinds, "single", "multi", "average"]
    by_name = {gap.name: gap for gap in found}
    single = [by_name[name] for name in ("nq", "triviaqa", "popqa")]
    assert by_name["single"].oracle == pytest.approx(sum(gap.oracle for gap in single) / 3)
    for gap in found:
        assert gap.interval.estimate == pytest.approx(gap.oracle - gap.standard)
        assert gap.relative_gain == pytest.approx(100 * (gap.oracle - gap.standard) / gap.standard)


def test_a_gap_narrows_with_more_questions(rollouts):
    few, many = (
        gaps_of(
            [
                rollouts.result("retrieval_only", skill=0.4, questions=size),
                rollouts.result("oracle", skill=0.7, questions=size),
            ],
            rollouts,
        )[-1].interval
        for size in (10, 160)
    )
    assert many.standard_error < 0.4 * few.standard_error


def test_headroom_counts_answers_that_were_retrieved_but_not_shown(rollouts):
    """Three questions: shown; hidden in one call and shown in the next; hidden in its only call
    that could have shown it."""
    shown, hidden = (
        rollouts.call(["a", "b", "c", "red fox"], ranking) for ranking in ([3, 0, 1], [0, 1, 2])
    )
    hopeless = rollouts.call(["a", "b", "c", "d"], [0, 1, 2])
    trajectories = [
        rollouts.trajectory(rollouts.question("nq", number), "red fox", calls=calls)
        for number, calls in enumerate(([shown], [hidden, shown], [hidden, hopeless]))
    ]
    trajectories.append(rollouts.trajectory(rollouts.question("musique", 0), "x"))

    def result(system):
        given = {"system": system, "seed": 0, "reward_rules": rollouts.reward}
        return Result(
            system,
            0,
            {},
            predictions_frame(trajectories, kinds=rollouts.kinds, **given),
            calls_frame(trajectories, relevance=rollouts.relevance, **given),
        )

    found = {
        gap.name: gap for gap in gaps_of([result("retrieval_only"), result("oracle")], rollouts)
    }
    assert found["nq"].calls_headroom == pytest.approx(2 / 5)
    assert found["nq"].questions_headroom == pytest.approx(1 / 3)
    assert found["musique"].calls_headroom is None
    assert found["musique"].questions_headroom == 0.0
    assert found["musique"].relative_gain is None
    assert found["average"].questions_headroom == pytest.approx(1 / 4)


def test_sides_without_a_common_seed_are_refused(results, rollouts):
    moved = [dataclasses.replace(one, seed=9) if one.system == "oracle" else one for one in results]
    with pytest.raises(ValueError, match="no seed in common"):
        gaps_of(moved, rollouts)


def make_table(results, rollouts, status=None, backbone=None, profile="tiny"):
    return oracle_table(
        rollouts.set_of(results, scope=rollouts.scope(profile), status=status), pair_of(backbone)
    )


def test_the_table_shows_both_sides_and_the_gain(results, rollouts):
    table = make_table(results, rollouts)
    assert table.name == "oracle_large"
    rows = {row.label: row.cells for row in table.rows}
    gain = 100 * (rows["Oracle"][2] / rows["Standard"][2] - 1)
    assert rows["Relative gain"][2] == f"{gain:+.1f} %"
    assert rows["Verdict"] == ("above 0",) * 3


def test_the_table_says_when_one_side_is_missing(results, rollouts):
    table = make_table(results, rollouts, {"oracle": "withheld: no gate"})
    assert [row.status for row in table.rows] == ["the other side is missing", "withheld: no gate"]


def test_the_papers_table_stands_below_a_rule_under_profile_paper_only(results, rollouts):
    small = "Qwen2.5-3B-Instruct"
    for profile, backbone in (("tiny", small), ("mini", small), ("paper", None)):
        table = make_table(results, rollouts, backbone=backbone, profile=profile)
        assert not [row for row in table.rows if row.label.startswith("Paper")]
    table = make_table(results, rollouts, backbone=small, profile="paper")
    assert [row.cells for row in table.rows if row.label.startswith("Paper")] == [
        ("0.531", "0.371", "0.440"),
        ("0.636", "0.499", "0.558"),
        ("+19.8 %", "+34.5 %", "+26.8 %"),
    ]
    assert [row.label for row in table.rows if row.ruled] == ["Paper: Standard"]
