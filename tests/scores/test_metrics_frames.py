"""Trajectories to rows to numbers."""

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.types import Note, Terminal
from cosearch.scores.metrics import (
    calls_frame,
    check_score_bounds,
    cutoffs_of,
    predictions_frame,
    summary,
)

WORDS = st.lists(st.sampled_from(["red", "fox", "the", "yes", "no", "-", "A"]), max_size=4)
TEXTS = WORDS.map(" ".join)


def frames(rollouts, trajectories):
    predictions = predictions_frame(
        trajectories, system="s", seed=3, kinds=rollouts.kinds, reward_rules=rollouts.reward
    )
    calls = calls_frame(
        trajectories,
        system="s",
        seed=3,
        relevance=rollouts.relevance,
        reward_rules=rollouts.reward,
    )
    return predictions, calls


@pytest.fixture
def pair(rollouts):
    """One answered trajectory with two searches, one malformed with an answer that would be right,
    one without any search."""
    first = rollouts.trajectory(
        rollouts.question("nq", 0),
        "Red fox!",
        calls=[
            rollouts.call(["a", "the red fox", "b"], [1, 0, 2]),
            rollouts.call(["a", "b", "c"], [0, 1], turn=1, fault="ids"),
        ],
    )
    second = rollouts.trajectory(
        rollouts.question("hotpotqa", 0),
        "red fox",
        calls=[rollouts.call(["a", "b", "c", "red fox"], [0, 1, 2])],
        terminal=Terminal.MALFORMED,
    )
    third = rollouts.trajectory(rollouts.question("nq", 1), "red")
    return [first, second, third]


def test_predictions_hold_scores_and_tokens(rollouts, pair):
    predictions, _ = frames(rollouts, pair)
    assert predictions["em"].to_list() == [1.0, 0.0, 0.0]
    assert predictions["f1"].to_list() == pytest.approx([1.0, 0.0, 2 / 3])
    assert predictions["searches"].to_list() == [2, 1, 0]
    assert predictions["agent_tokens"].to_list() == [3, 3, 3]
    assert predictions["context_tokens"].to_list() == [2, 2, 2]
    assert predictions["ranker_tokens"].to_list() == [4, 2, 0]
    assert predictions["ranker_context_tokens"].to_list() == [6, 3, 0]
    assert predictions["terminal"].to_list() == ["answered", "malformed", "answered"]


def test_calls_judge_ranker_and_retriever(rollouts, pair):
    _, calls = frames(rollouts, pair)
    first, second, third = calls.rows(named=True)
    assert first["labels"] == [False, True, False]
    assert (first["hit_1"], first["retriever_hit_1"], first["retriever_hit_2"]) == (1.0, 0.0, 1.0)
    assert first["r_rel"] == 1.0
    assert (second["has_answer"], second["ranker_fault"]) == (False, "ids")
    assert (third["has_answer"], third["shown_answer"], third["hit_3"]) == (True, False, 0.0)
    assert cutoffs_of(calls) == [1, 2, 3]


def with_call(rollouts, **changes):
    """Calls of one trajectory whose only search shows "the red fox" second."""
    call = replace(rollouts.call(["a", "the red fox", "b"], [2, 1, 0]), **changes)
    trajectory = rollouts.trajectory(rollouts.question("nq", 0), "x", calls=[call])
    return frames(rollouts, [trajectory])[1].row(0, named=True)


def test_labels_of_what_was_shown_follow_what_was_shown(rollouts):
    whole = with_call(rollouts)
    assert (whole["shown_answer"], whole["shown_documents"], whole["hidden_documents"]) == (
        True,
        3,
        0,
    )
    dropped = with_call(rollouts, dropped_documents=2)
    assert (dropped["shown_answer"], dropped["shown_documents"]) == (False, 1)
    assert (dropped["hidden_documents"], dropped["dropped_documents"]) == (1, 2)
    cut = with_call(rollouts, cuts=((1, 7),))
    assert (cut["shown_answer"], cut["hidden_documents"], cut["cut_documents"]) == (False, 1, 1)
    assert with_call(rollouts, cuts=((1, 11), (2, 0)))["shown_answer"]
    for row in (whole, dropped, cut):
        assert (row["has_answer"], row["hit_2"], row["r_rel"]) == (True, 1.0, whole["r_rel"])


def test_a_note_is_what_was_shown(rollouts):
    silent = with_call(rollouts, note=Note((1,), None, "nothing", 1, ((0, 1),)))
    assert (silent["shown_answer"], silent["shown_documents"]) == (False, 1)
    assert (silent["dropped_noted"], silent["cut_noted"], silent["hidden_documents"]) == (1, 1, 0)
    note = Note((1,), None, "a red fox", 2)
    telling = with_call(rollouts, note=note)
    assert (telling["shown_answer"], telling["hidden_documents"]) == (True, 1)
    assert not with_call(rollouts, note=note, dropped_documents=1)["shown_answer"]


def test_answers_that_the_ranker_was_not_shown_are_counted(rollouts):
    output = rollouts.call(["a"], [0]).output
    cut = with_call(rollouts, output=replace(output, cuts=((1, 7), (2, 0))))
    assert (cut["cut_candidates"], cut["hidden_candidates"], cut["shown_answer"]) == (2, 1, True)
    dropped = with_call(rollouts, output=replace(output, dropped_candidates=2))
    assert (dropped["dropped_candidates"], dropped["hidden_candidates"]) == (2, 1)
    assert with_call(rollouts)["hidden_candidates"] == 0
    assert with_call(rollouts, output=None)["hidden_candidates"] is None


def test_queries_that_the_encoder_cut_are_marked(rollouts, pair):
    made = {"system": "s", "seed": 3, "relevance": rollouts.relevance}
    calls = calls_frame(pair, reward_rules=rollouts.reward, cut_queries={"who"}, **made)
    predictions, plain = frames(rollouts, pair)
    assert calls["cut_query"].all() and not plain["cut_query"].any()
    assert summary(predictions, calls)["averages"]["micro"]["cut_queries"] == 3


def test_yes_no_rules_differ_and_the_rows_own_is_f1(rollouts):
    trajectory = rollouts.trajectory(rollouts.question("nq", 0, ["no"]), "no way")
    predictions, _ = frames(rollouts, [trajectory])
    row = predictions.row(0, named=True)
    assert row["f1_bag"] == pytest.approx(2 / 3)
    assert row["f1_squad"] == 0.0
    assert row["f1"] == row["f1_bag"]


def test_a_question_met_twice_is_refused(rollouts, pair):
    with pytest.raises(ValueError, match="stands twice"):
        frames(rollouts, [pair[0], pair[0]])


@given(prediction=TEXTS, golds=st.lists(TEXTS, min_size=1, max_size=3))
def test_em_never_exceeds_f1(rollouts, prediction, golds):
    trajectory = rollouts.trajectory(rollouts.question("nq", 0, golds), prediction)
    row = frames(rollouts, [trajectory])[0].row(0, named=True)
    assert 0 <= row["em"] <= min(row["f1_bag"], row["f1_squad"])
    assert max(row["f1_bag"], row["f1_squad"]) <= 1


@pytest.mark.parametrize("column", ["f1", "f1_bag", "f1_squad"])
@pytest.mark.parametrize("value", [0.5, 1.5, None])
def test_a_score_below_em_or_above_one_is_refused(rollouts, pair, column, value):
    if value is None:
        value = float("nan")
    predictions, _ = frames(rollouts, pair[:1])
    broken = predictions.with_columns(pl.lit(value).alias(column))
    with pytest.raises(ValueError, match=r"nq/nq-0.*em <= f1"):
        check_score_bounds(broken)


def test_summary_counts_and_averages(rollouts, pair):
    numbers = summary(*frames(rollouts, pair))
    nq, hotpot = numbers["datasets"]["nq"], numbers["datasets"]["hotpotqa"]
    assert nq["f1"] == pytest.approx(5 / 6, abs=1e-6)
    assert nq["hit"] == {"1": 1.0, "2": 1.0, "3": 1.0}
    assert nq["zero_answer_lists"] == 0.5
    assert nq["ranker_malformed"] == 0.5
    assert hotpot["hit"] == {"1": 0.0, "2": 0.0, "3": 0.0}
    assert hotpot["terminals"]["malformed"] == 1
    averages = numbers["averages"]
    assert averages["macro"]["f1"] == pytest.approx((5 / 6 + 0) / 2, abs=1e-6)
    assert averages["macro_groups"] == averages["macro"]
    assert averages["micro"]["f1"] == pytest.approx(5 / 9, abs=1e-6)
    assert averages["micro"]["well_formed"] == pytest.approx(2 / 3, abs=1e-6)
    assert averages["micro"]["search_counts"] == {"0": 1, "1": 1, "2": 1}


def test_summary_of_one_kind_and_no_call(rollouts, pair):
    numbers = summary(*frames(rollouts, pair[2:]))
    assert numbers["averages"]["macro_groups"] == {}
    assert numbers["datasets"]["nq"]["hit"] == {"1": None, "2": None, "3": None}
    assert numbers["datasets"]["nq"]["zero_answer_lists"] is None


def test_summary_of_nothing_is_refused(rollouts):
    with pytest.raises(ValueError, match="no prediction"):
        summary(*frames(rollouts, []))
