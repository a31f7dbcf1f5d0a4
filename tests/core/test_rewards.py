"""Rewards (Eqs. 4-7) under both presets of params.yaml."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.protocols import Judgement
from cosearch.core.rewards import (
    Branch,
    RewardRules,
    call_reward,
    composite_reward,
    hit_at,
    judged_reward,
    main_reward,
    ndcg_at,
    relevance_reward,
)
from cosearch.core.types import Terminal
from tests.core.builders import TOKENS, call, preset, question, trajectory

GOLDEN = json.loads((Path(__file__).parent / "golden" / "composite.json").read_text())
PAPER, RELEASED = preset("paper").reward, preset("released").reward
PRESETS = pytest.mark.parametrize("name", ["paper", "released"])
GOLD = "alpha beta gamma delta"


def answered(f1: float) -> str:
    """An answer with this F1 against GOLD."""
    return {1.0: GOLD, 0.8: f"{GOLD} x y", 0.75: "alpha beta gamma x"}[f1]


@PRESETS
@pytest.mark.parametrize("case", GOLDEN["cases"], ids=str)
def test_golden_values_of_equation_6(name: str, case: list[float]) -> None:
    row = dict(zip(GOLDEN["fields"], case, strict=True))
    rules = preset(name).reward
    main = row["r_main"]
    if rules.main_threshold is not None:
        main = float(main >= rules.main_threshold)
    value, _ = composite_reward(
        well_formed=bool(row["f"]),
        has_answer=bool(row["i_ans"]),
        r_rel=row["r_rel"],
        main=main,
        rules=rules,
    )
    assert value == pytest.approx(row[name], abs=1e-9)


@pytest.mark.parametrize(
    ("place", "f1", "paper", "released"),
    [
        (1, 1.0, 5 / 3, 2 / 3),
        (0, 0.75, 1.75, 1.0),
        (0, 1.0, 2.0, 2.0),
        (0, 0.8, 1.8, 2.0),
        (3, 1.0, 1 / 3, 1 / 3),
        (5, 1.0, 0.0, 0.0),
    ],
    ids=str,
)
def test_worked_values_from_a_call(place: int, f1: float, paper: float, released: float) -> None:
    texts = [GOLD if position == place else "x" for position in range(6)]
    search = call(texts=texts, ranking=range(5))
    played = trajectory(search, answer=answered(f1), asked=question(GOLD))
    for rules, expected in ((PAPER, paper), (RELEASED, released)):
        reward = call_reward(search, played, rules, TOKENS)
        assert reward.r_rank == pytest.approx(expected)
        assert (reward.has_answer, reward.r_main) == (True, f1)


def test_without_an_answer_in_the_candidates_the_main_term_is_all() -> None:
    search = call(texts=["x", "y"], ranking=[1, 0])
    played = trajectory(search, answer=answered(0.75), asked=question(GOLD))
    paper = call_reward(search, played, PAPER, TOKENS)
    assert (paper.has_answer, paper.r_rel, paper.r_rank) == (False, 0.0, 0.75)
    assert paper.branch is Branch.MAIN_ONLY
    assert call_reward(search, played, RELEASED, TOKENS).r_rank == 0.0


@PRESETS
def test_a_malformed_ranking_of_a_good_trajectory_earns_the_penalty(name: str) -> None:
    search = call(fault="ids")
    reward = call_reward(search, trajectory(search), preset(name).reward, TOKENS)
    assert (reward.r_rank, reward.branch) == (-0.2, Branch.MALFORMED)


def test_calls_of_malformed_trajectories() -> None:
    search = call(texts=["Oslo", "x", "y"])
    played = trajectory(search, answer=None)
    paper = call_reward(search, played, PAPER, TOKENS)
    assert (paper.branch, paper.r_rank, paper.r_main) == (Branch.EXCLUDED, 0.0, -0.2)
    kept = call_reward(search, played, RELEASED, TOKENS)
    assert (kept.branch, kept.r_rank) == (Branch.RELEVANCE_AND_MAIN, 1.0)
    plain = replace(RELEASED, main_threshold=None)
    assert call_reward(search, played, plain, TOKENS).r_rank == 1.0


def test_a_call_without_a_ranker_policy_is_always_well_formed() -> None:
    search = call(ranked=False)
    assert call_reward(search, trajectory(search), PAPER, TOKENS).r_rank == 2.0


def test_ablations() -> None:
    without_rel, without_main = replace(PAPER, use_relevance=False), replace(PAPER, use_main=False)

    def value(rules: RewardRules, *, f: bool = True, i_ans: bool = True) -> tuple[float, Branch]:
        return composite_reward(
            well_formed=f, has_answer=i_ans, r_rel=2 / 3 * i_ans, main=0.4, rules=rules
        )

    assert value(without_rel) == (0.4, Branch.MAIN_ONLY)
    assert value(without_main) == (2 / 3, Branch.RELEVANCE_ONLY)
    assert value(without_main, i_ans=False) == (0.0, Branch.RELEVANCE_ONLY)
    assert value(without_rel, f=False) == value(without_main, f=False) == (-0.2, Branch.MALFORMED)


@pytest.mark.parametrize(("inclusive", "expected"), [(False, 0.5), (True, 1.5)])
def test_the_gate_at_gamma_itself(inclusive: bool, expected: float) -> None:
    rules = replace(PAPER, gate_inclusive=inclusive)
    value, _ = composite_reward(well_formed=True, has_answer=True, r_rel=0.5, main=1.0, rules=rules)
    assert value == expected


@pytest.mark.parametrize(
    ("place", "expected"), [(0, 1.0), (1, 2 / 3), (2, 2 / 3), (3, 1 / 3), (4, 1 / 3), (5, 0.0)]
)
def test_relevance_reward_is_the_mean_hit(place: int, expected: float) -> None:
    labels = [position == place for position in range(6)]
    assert relevance_reward(labels, range(5), PAPER) == pytest.approx(expected)


def test_relevance_reward_follows_the_ranking() -> None:
    labels = (False, False, True)
    assert relevance_reward(labels, (2, 0, 1), PAPER) == 1.0
    assert relevance_reward(labels, (0, 1), PAPER) == 0.0
    assert relevance_reward((False,) * 3, (0, 1, 2), PAPER) == 0.0
    assert relevance_reward((), (), PAPER) == 0.0


def test_ndcg_replaces_hits() -> None:
    rules = replace(PAPER, ranking_metric="ndcg")
    labels = (True, False, True, True)
    gain, ideal = 1 / math.log2(3), 1 + 1 / math.log2(3)
    assert relevance_reward(labels, (1, 0), rules) == pytest.approx(gain / ideal)
    assert relevance_reward(labels, (2, 0), rules) == 1.0
    assert relevance_reward((False, False), (0, 1), rules) == 0.0


def test_ndcg_ideal_counts_relevant_documents_that_were_not_ranked() -> None:
    assert ndcg_at([True, False], 2, relevant=1) == 1.0
    assert ndcg_at([True, False], 2, relevant=7) == pytest.approx(1 / (1 + 1 / math.log2(3)))
    assert ndcg_at([False, False], 2, relevant=0) == 0.0


LABELS = st.lists(st.booleans(), min_size=1, max_size=8)


@given(LABELS, st.integers(1, 8), st.data())
def test_ranking_metrics_stay_in_range_and_reward_the_ideal(
    labels: list[bool], k: int, data: st.DataObject
) -> None:
    ranking = data.draw(st.permutations(range(len(labels))))[:k]
    ideal = sorted(range(len(labels)), key=lambda position: not labels[position])[:k]
    for metric in ("hit", "ndcg"):
        rules = replace(PAPER, ranking_metric=metric)
        assert 0.0 <= relevance_reward(labels, ranking, rules) <= 1.0 + 1e-12
        assert relevance_reward(labels, ideal, rules) == pytest.approx(float(any(labels)))
    assert hit_at([labels[p] for p in ranking], k) <= any(labels)


@pytest.mark.parametrize("terminal", [t for t in Terminal if t is not Terminal.ANSWERED])
def test_every_end_but_an_answer_earns_the_penalty(terminal: Terminal) -> None:
    played = replace(trajectory(answer="Oslo"), terminal=terminal)
    assert main_reward(played, PAPER) == -0.2


def test_main_reward_is_the_best_answer_f1() -> None:
    assert main_reward(trajectory(answer="Oslo Norway"), PAPER) == 2 / 3
    assert main_reward(trajectory(answer="no", asked=question("no way")), PAPER) == 2 / 3
    squad = replace(PAPER, yes_no_rule="squad")
    assert main_reward(trajectory(answer="no", asked=question("no way")), squad) == 0.0


@pytest.mark.parametrize(("answer", "f1", "em"), [(GOLD, 1, 1), ("alpha beta gamma x", 0.75, 0)])
def test_the_agent_may_be_paid_by_exact_match(answer: str, f1: float, em: float) -> None:
    """Search-R1's reward; Eq. 6 then adds it in the place of F1."""
    search = call(texts=[GOLD, "x", "y"])
    played = trajectory(search, answer=answer, asked=question(GOLD))
    by_match = replace(PAPER, answer_metric="em")
    assert main_reward(played, PAPER) == f1
    assert main_reward(played, by_match) == em
    assert call_reward(search, played, by_match, TOKENS).r_rank == 1 + em
    assert main_reward(trajectory(answer=None), by_match) == -0.2
    free = replace(by_match, format_penalty=0.0)
    assert main_reward(trajectory(answer=None), free) == 0.0


def test_a_judges_score_stands_in_for_the_composite() -> None:
    search = call()
    reward = call_reward(search, trajectory(search), PAPER, TOKENS)
    judged = judged_reward(reward, Judgement(0.3, 1, 2))
    assert (judged.r_rank, judged.branch) == (0.3, Branch.JUDGE)
    assert judged.judgement == Judgement(0.3, 1, 2)
    assert replace(judged, r_rank=reward.r_rank, branch=reward.branch, judgement=None) == reward


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan, math.inf])
def test_a_judges_score_lies_between_0_and_1(score: float) -> None:
    search = call()
    reward = call_reward(search, trajectory(search), PAPER, TOKENS)
    with pytest.raises(ValueError, match=r"scores lie in \[0, 1\]"):
        judged_reward(reward, Judgement(score, 0, 0))
