"""From trajectories to samples (Section 3.4): who is grouped, who is trained, with what."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cosearch.core.advantages import group_advantages
from cosearch.core.credit import (
    CreditRules,
    Verdicts,
    agent_samples,
    assign_credit,
    completion_sample,
    ranker_samples,
)
from cosearch.core.protocols import JudgeCase, Judgement
from cosearch.core.rewards import Branch
from cosearch.core.types import SearchCall, Trajectory
from tests.core.builders import call, output, preset, question, trajectory

PAPER, RELEASED = preset("paper"), preset("released")
FIRST, SECOND = (0, 1, 2), (1, 0, 2)
"""Rankings of ("Oslo", "x", "y") that are worth r_rel 1 and 2/3."""


def samples_of(*calls: tuple[SearchCall, ...]) -> list[Trajectory]:
    return [trajectory(*row, sample=sample) for sample, row in enumerate(calls)]


def groups(verdicts: Verdicts) -> list[list[str | None]]:
    return [[verdict.group for verdict in row] for row in verdicts.calls]


def test_agent_rewards_are_compared_within_a_question() -> None:
    other = question("Rome", name="q2")
    played = [
        trajectory(answer="Oslo"),
        trajectory(answer="Bergen", sample=1),
        trajectory(answer="Rome", asked=other),
        trajectory(answer=None, asked=other, sample=1),
    ]
    verdicts = assign_credit(played, PAPER).agent
    assert [v.reward for v in verdicts] == [1.0, 0.0, 1.0, -0.2]
    assert [v.group for v in verdicts] == ["nq/q1", "nq/q1", "nq/q2", "nq/q2"]
    for first, second in (verdicts[:2], verdicts[2:]):
        expected = group_advantages([first.reward, second.reward], PAPER.advantage)
        assert [first.advantage, second.advantage] == expected
        assert first.advantage > 0 > second.advantage


def test_questions_of_two_data_sets_with_one_id_are_two_groups() -> None:
    twin = replace(question(), dataset="hotpotqa")
    verdicts = assign_credit([trajectory(), trajectory(asked=twin)], PAPER).agent
    assert [v.group for v in verdicts] == ["nq/q1", "hotpotqa/q1"]
    assert [v.advantage for v in verdicts] == [0.0, 0.0]


def test_ranker_calls_are_compared_within_their_cluster() -> None:
    played = samples_of(
        (call("capital", ranking=FIRST), call("mayor of Oslo", turn=1)),
        (call("the capital?", ranking=SECOND),),
        (call("capital", ranking=(1, 2)), call("capital", texts=("x", "y"), ranking=(0, 1))),
    )
    verdicts = assign_credit(played, PAPER)
    assert groups(verdicts) == [["nq/q1#0", None], ["nq/q1#0"], ["nq/q1#0", None]]
    rewards = [row[0].reward.r_rank for row in verdicts.calls]
    assert rewards == [2.0, pytest.approx(5 / 3), 0.0]
    expected = group_advantages(rewards, PAPER.advantage)
    assert [row[0].advantage for row in verdicts.calls] == expected
    outside = verdicts.calls[0][1]
    assert (outside.group, outside.advantage, outside.trained) == (None, 0.0, False)
    assert len(ranker_samples(played, verdicts)) == 3


def test_clusters_of_a_question_have_their_own_ids() -> None:
    row = (call("capital"), call("mayor", turn=1))
    verdicts = assign_credit(samples_of(row, row, row), PAPER)
    assert groups(verdicts) == [["nq/q1#0", "nq/q1#1"]] * 3


def test_calls_of_malformed_trajectories_leave_first() -> None:
    """They neither represent a group nor help it to k_min."""
    played = [trajectory(call("p q r s t"), answer=None)]
    played += [trajectory(call(query), sample=1) for query in ("p q r s", "p q r t", "p q r s")]
    assert groups(assign_credit(played, PAPER)) == [[None]] * 4
    kept = replace(PAPER, reward=replace(PAPER.reward, exclude_malformed_trajectories=False))
    assert groups(assign_credit(played, kept)) == [["nq/q1#0"]] * 4
    branches = [row[0].reward.branch for row in assign_credit(played, PAPER).calls]
    assert branches[0] is Branch.EXCLUDED


def test_malformed_rankings_of_good_trajectories_stay_and_pay() -> None:
    played = samples_of((call(fault="ids"),), (call(),), (call(),))
    verdicts = assign_credit(played, PAPER)
    assert groups(verdicts) == [["nq/q1#0"]] * 3
    assert [row[0].reward.r_rank for row in verdicts.calls] == [-0.2, 2.0, 2.0]
    assert verdicts.calls[0][0].advantage < 0 < verdicts.calls[1][0].advantage
    assert verdicts.calls[0][0].trained


def test_calls_that_no_policy_ranked_are_not_trained() -> None:
    played = samples_of((call(ranked=False),), (call(),), (call(),), (call(),))
    verdicts = assign_credit(played, PAPER)
    assert groups(verdicts) == [[None], *[["nq/q1#0"]] * 3]
    assert len(ranker_samples(played, verdicts)) == 3


def test_without_grouping_a_question_is_one_group() -> None:
    rules = replace(PAPER, group=replace(PAPER.group, semantic=False))
    played = samples_of((call("x"), call("y", texts=("z",), ranking=(0,))), (call("w"),))
    assert groups(assign_credit(played, rules)) == [["nq/q1#0", "nq/q1#0"], ["nq/q1#0"]]


def test_groups_never_span_questions() -> None:
    asked = [question(), question(), question(name="q2"), question(name="q2")]
    played = [trajectory(call(), asked=q, sample=i % 2) for i, q in enumerate(asked)]
    assert groups(assign_credit(played, PAPER)) == [[None]] * 4


def four(**changes: Any) -> tuple[list[Trajectory], Verdicts]:
    rankings = (FIRST, SECOND, SECOND, SECOND)
    rows = [
        (replace(call(ranking=ranking), output=output(f"reason {sample}")),)
        for sample, ranking in enumerate(rankings)
    ]
    played = samples_of(*rows)
    played[1] = replace(played[1], answer="Bergen")
    return played, assign_credit(played, replace(RELEASED, **changes))


def test_equal_prompts_and_rankings_share_their_reward_in_the_release() -> None:
    paper_like = four(average_duplicates=False, reward=PAPER.reward)[1]
    shared = four(reward=PAPER.reward)[1]
    rewards = [2.0, 2 / 3, 5 / 3, 5 / 3]
    assert [r[0].reward.r_rank for r in shared.calls] == pytest.approx(rewards)
    mean = sum(rewards[1:]) / 3
    expected = group_advantages([2.0, mean, mean, mean], RELEASED.advantage)
    assert [r[0].advantage for r in shared.calls] == pytest.approx(expected)
    expected = group_advantages(rewards, RELEASED.advantage)
    assert [r[0].advantage for r in paper_like.calls] == pytest.approx(expected)


def test_a_malformed_output_shares_no_reward_with_the_retrievers_order() -> None:
    played = samples_of((call(fault="ids"),), *[(call(),)] * 3)
    rules = replace(RELEASED, drop_constant_groups=False)
    verdicts = assign_credit(played, rules)
    expected = group_advantages([-0.2, 2.0, 2.0, 2.0], rules.advantage)
    assert [row[0].advantage for row in verdicts.calls] == expected


def test_constant_groups_stay_with_zero_or_leave_the_batch() -> None:
    played = samples_of(*[(call(),)] * 4)
    stay = assign_credit(played, PAPER)
    assert [v.advantage for v in stay.agent] == [0.0] * 4
    assert len(agent_samples(played, stay)) == len(ranker_samples(played, stay)) == 4
    leave = assign_credit(played, RELEASED)
    assert agent_samples(played, leave) == ranker_samples(played, leave) == []


@pytest.mark.parametrize(("factor", "kept"), [(None, 4), (2.0, 4), (0.5, 2), (0.3, 1), (0.0, 0)])
def test_ranker_samples_are_capped_by_agent_samples(factor: float | None, kept: int) -> None:
    played, verdicts = four(max_ranker_samples=factor)
    assert len(agent_samples(played, verdicts)) == 4
    assert [row[0].trained for row in verdicts.calls] == [i < kept for i in range(4)]
    assert len(ranker_samples(played, verdicts)) == kept
    assert groups(verdicts) == [["nq/q1#0"]] * 4


def test_agent_samples_carry_the_advantage_on_sampled_tokens_only() -> None:
    played = [trajectory(answer="Oslo"), trajectory(answer="Bergen", sample=1)]
    verdicts = assign_credit(played, PAPER)
    for sample, verdict in zip(agent_samples(played, verdicts), verdicts.agent, strict=True):
        assert (sample.ids, sample.loss_mask) == ((7, 8, 9), (0, 1, 0))
        assert sample.old_logprobs == (0.0, -0.5, 0.0)
        assert sample.advantages == [0.0, verdict.advantage, 0.0]


def test_a_completion_is_trained_and_its_prompt_is_not() -> None:
    sample = completion_sample((1, 2), (3, 4, 5), (-0.1, -0.2, -0.3), advantage=1.5)
    assert sample.ids == (1, 2, 3, 4, 5)
    assert sample.loss_mask == (0, 0, 1, 1, 1)
    assert sample.old_logprobs == (0.0, 0.0, -0.1, -0.2, -0.3)
    assert sample.advantages == (0.0, 0.0, 1.5, 1.5, 1.5)


def test_presets_are_the_two_readings() -> None:
    def switches(rules: CreditRules) -> tuple[object, ...]:
        return (
            rules.group.k_min,
            rules.reward.exclude_malformed_trajectories,
            rules.average_duplicates,
            rules.drop_constant_groups,
            rules.max_ranker_samples,
        )

    assert switches(PAPER) == (3, True, False, False, None)
    assert switches(RELEASED) == (4, False, True, True, 2.0)


JUDGED = replace(PAPER, reward=replace(PAPER.reward, source="judge"))


class TitleJudge:
    """A judge to whom the place of Oslo is all; remembers its cases."""

    def __init__(self) -> None:
        self.cases: list[JudgeCase] = []

    def __call__(self, cases: Sequence[JudgeCase]) -> list[Judgement]:
        self.cases += cases
        return [Judgement(float(case.passages[0].text == "Oslo"), 0, 0) for case in cases]


def test_a_judge_pays_well_formed_calls_of_good_trajectories() -> None:
    played = samples_of(
        (call(ranking=FIRST),), (call(ranking=SECOND),), (call(fault="ids"),), (call(),)
    )
    played[3] = replace(played[3], terminal=trajectory(answer=None).terminal)
    judge = TitleJudge()
    verdicts = assign_credit(played, JUDGED, judge)
    rewards = [row[0].reward for row in verdicts.calls]
    assert [reward.r_rank for reward in rewards] == [1.0, 0.0, -0.2, 0.0]
    assert [reward.branch for reward in rewards] == [
        Branch.JUDGE,
        Branch.JUDGE,
        Branch.MALFORMED,
        Branch.EXCLUDED,
    ]
    assert groups(verdicts) == [["nq/q1#0"]] * 3 + [[None]]
    expected = group_advantages([1.0, 0.0, -0.2], PAPER.advantage)
    assert [row[0].advantage for row in verdicts.calls[:3]] == expected
    assert len(judge.cases) == 2
    assert [v.reward for v in verdicts.agent] == [1.0, 1.0, 1.0, -0.2]


def test_a_judge_sees_what_the_agent_saw() -> None:
    cut = replace(call(ranking=(2, 0, 1)), dropped_documents=1, cuts=((1, 2),))
    judge = TitleJudge()
    assign_credit(samples_of((cut,)), JUDGED, judge)
    (case,) = judge.cases
    asked = question()
    assert (case.question, case.golds, case.query) == (asked.text, asked.golds, "capital")
    assert [passage.text for passage in case.passages] == ["y", "Os"]


def test_rules_that_need_a_judge_do_not_go_without() -> None:
    with pytest.raises(ValueError, match="'judge', and there is no judge"):
        assign_credit(samples_of((call(),)), JUDGED)


def test_no_judge_is_asked_for_the_composite() -> None:
    judge = TitleJudge()
    assign_credit(samples_of((call(),)), PAPER, judge)
    assert judge.cases == []


def test_samples_know_their_group() -> None:
    played = samples_of((call(),), (call(),), (call(),))
    verdicts = assign_credit(played, PAPER)
    assert {sample.group for sample in agent_samples(played, verdicts)} == {"nq/q1"}
    assert {sample.group for sample in ranker_samples(played, verdicts)} == {"nq/q1#0"}
