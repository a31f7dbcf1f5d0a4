"""From trajectories to training samples: rewards, groups and advantages put together (Section 3.4).

The agent's group is its question; a ranker call's group is its cluster of similar sub-queries.
The verdicts keep the reward, its branch, the group and the advantage, so that a reader can check
them later.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from cosearch.core.advantages import AdvantageRules, group_advantages, is_constant
from cosearch.core.grouping import CallKey, GroupRules, Member, group_calls
from cosearch.core.protocols import JudgeCase, RankingJudge
from cosearch.core.relevance import RelevanceRule
from cosearch.core.rewards import (
    Branch,
    CallReward,
    RewardRules,
    call_reward,
    judged_reward,
    main_reward,
)
from cosearch.core.types import Sample, SearchCall, Trajectory

Placed = dict[CallKey, tuple[str, float, bool]]
"""Group id, advantage and training flag of every call that landed in a surviving group."""


@dataclass(frozen=True, slots=True)
class CreditRules:
    """All rules between a finished rollout and the trainer. The last three come from the released
    code; the paper does not have them."""

    reward: RewardRules
    relevance: RelevanceRule
    group: GroupRules
    advantage: AdvantageRules
    average_duplicates: bool
    """Calls of one group with the same prompt and the same ranking get their average reward."""
    drop_constant_groups: bool
    """Constant groups leave the batch, so the denominator of the loss does not count them."""
    max_ranker_samples: float | None
    """At most this many ranker samples per agent sample; the first ones in order are kept."""


@dataclass(frozen=True, slots=True)
class AgentVerdict:
    """What one trajectory earned. ``group`` names its question."""

    reward: float
    group: str
    advantage: float
    trained: bool


@dataclass(frozen=True, slots=True)
class CallVerdict:
    """What one ranker call earned. ``group`` is None for a call outside every surviving group."""

    reward: CallReward
    group: str | None
    advantage: float
    trained: bool


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts aligned with the trajectories, and with the calls of each."""

    agent: tuple[AgentVerdict, ...]
    calls: tuple[tuple[CallVerdict, ...], ...]


def assign_credit(
    trajectories: Sequence[Trajectory], rules: CreditRules, judge: RankingJudge | None = None
) -> Verdicts:
    """Verdicts of one round. The trajectories of a question follow each other in sample order.

    Raises ValueError when the rules ask for a judge and ``judge`` is None.
    """
    questions: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, trajectory in enumerate(trajectories):
        questions[trajectory.question.dataset, trajectory.question.id].append(index)
    rewards = _reward_calls(trajectories, rules, judge)
    agent: dict[int, AgentVerdict] = {}
    placed: Placed = {}
    for (dataset, question), members in questions.items():
        name = f"{dataset}/{question}"
        agent.update(_judge_agent(name, members, trajectories, rules))
        placed.update(_judge_calls(name, members, trajectories, rewards, rules))
    placed = _cap(placed, rules.max_ranker_samples, sum(v.trained for v in agent.values()))
    in_order = tuple(agent[index] for index in range(len(trajectories)))
    return Verdicts(in_order, _call_verdicts(rewards, placed))


def _call_verdicts(
    rewards: Sequence[Sequence[CallReward]], placed: Placed
) -> tuple[tuple[CallVerdict, ...], ...]:
    """Verdicts of all calls, those outside every surviving group included."""
    outside = (None, 0.0, False)
    return tuple(
        tuple(
            CallVerdict(reward, *placed.get((index, position), outside))
            for position, reward in enumerate(row)
        )
        for index, row in enumerate(rewards)
    )


def _reward_calls(
    trajectories: Sequence[Trajectory], rules: CreditRules, judge: RankingJudge | None
) -> list[list[CallReward]]:
    """Rewards of all calls. A judge, where the rules ask for one, gets its cases in one batch."""
    rewards = [
        [call_reward(call, t, rules.reward, rules.relevance) for call in t.calls]
        for t in trajectories
    ]
    if rules.reward.source == "composite":
        return rewards
    if judge is None:
        raise ValueError(f"reward.source is {rules.reward.source!r}, and there is no judge to ask")
    unpaid = {Branch.MALFORMED, Branch.EXCLUDED}
    keys = [
        (index, position)
        for index, row in enumerate(rewards)
        for position, reward in enumerate(row)
        if reward.branch not in unpaid
    ]
    cases = [judge_case(trajectories[i], trajectories[i].calls[position]) for i, position in keys]
    for (index, position), judgement in zip(keys, judge(cases), strict=True):
        rewards[index][position] = judged_reward(rewards[index][position], judgement)
    return rewards


def judge_case(trajectory: Trajectory, call: SearchCall) -> JudgeCase:
    """What a judge sees of ``call``: the documents that the agent was shown, in the order shown."""
    question = trajectory.question
    return JudgeCase(question.text, question.golds, call.query, call.shown())


def _judge_agent(
    name: str, members: Sequence[int], trajectories: Sequence[Trajectory], rules: CreditRules
) -> dict[int, AgentVerdict]:
    """Verdicts of one question's trajectories; the question is their group."""
    rewards = [main_reward(trajectories[index], rules.reward) for index in members]
    advantages = group_advantages(rewards, rules.advantage)
    trained = not (rules.drop_constant_groups and is_constant(rewards))
    return {
        index: AgentVerdict(reward, name, advantage, trained)
        for index, reward, advantage in zip(members, rewards, advantages, strict=True)
    }


def _judge_calls(
    name: str,
    members: Sequence[int],
    trajectories: Sequence[Trajectory],
    rewards: Sequence[Sequence[CallReward]],
    rules: CreditRules,
) -> Placed:
    """Group id, advantage and training flag of every call that lands in a surviving group."""
    candidates = [
        Member((index, position), call.query, rewards[index][position].has_answer)
        for index in members
        for position, call in enumerate(trajectories[index].calls)
        if call.output is not None and rewards[index][position].branch is not Branch.EXCLUDED
    ]
    placed: Placed = {}
    for number, group in enumerate(group_calls(candidates, rules.group)):
        keys = [member.key for member in group]
        values = [rewards[index][position].r_rank for index, position in keys]
        if rules.average_duplicates:
            values = _average_duplicates(keys, values, trajectories)
        advantages = group_advantages(values, rules.advantage)
        trained = not (rules.drop_constant_groups and is_constant(values))
        for key, advantage in zip(keys, advantages, strict=True):
            placed[key] = (f"{name}#{number}", advantage, trained)
    return placed


def _average_duplicates(
    keys: Sequence[CallKey], values: Sequence[float], trajectories: Sequence[Trajectory]
) -> list[float]:
    """Rewards in which calls of equal prompt and ranking have their mean.

    After a malformed output the agent is shown the retriever's order. The policy did not rank it,
    so all malformed outputs of a prompt count as one ranking.
    """

    def identity(key: CallKey) -> tuple[object, ...]:
        call = trajectories[key[0]].calls[key[1]]
        prompt = call.output and (call.output.prompt_ids, call.output.inputs)
        return prompt, call.well_formed and call.ranking

    same: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        same[identity(key)].append(value)
    mean = {key: math.fsum(equal) / len(equal) for key, equal in same.items()}
    return [mean[identity(key)] for key in keys]


def _cap(placed: Placed, factor: float | None, agent_samples: int) -> Placed:
    """``placed`` with the flags of all calls beyond ``factor * agent_samples`` switched off."""
    if factor is None:
        return placed
    trained = [key for key in sorted(placed) if placed[key][2]]
    beyond = set(trained[int(factor * agent_samples) :])
    return {
        key: (group, advantage, flag and key not in beyond)
        for key, (group, advantage, flag) in placed.items()
    }


def agent_samples(trajectories: Sequence[Trajectory], verdicts: Verdicts) -> list[Sample]:
    """Agent samples in trajectory order; every sampled token has its trajectory's advantage."""
    samples = []
    for trajectory, verdict in zip(trajectories, verdicts.agent, strict=True):
        if not verdict.trained:
            continue
        mask = trajectory.loss_mask
        advantages = [verdict.advantage if flag else 0.0 for flag in mask]
        samples.append(
            Sample(trajectory.ids, mask, trajectory.logprobs, advantages, group=verdict.group)
        )
    return samples


def ranker_samples(trajectories: Sequence[Trajectory], verdicts: Verdicts) -> list[Sample]:
    """Ranker samples in the order (trajectory, turn): a text after its prompt, or picks."""
    return [
        completion_sample(
            call.output.prompt_ids,
            call.output.generation.ids,
            call.output.generation.logprobs,
            verdict.advantage,
            inputs=call.output.inputs,
            group=verdict.group or "",
        )
        for trajectory, row in zip(trajectories, verdicts.calls, strict=True)
        for call, verdict in zip(trajectory.calls, row, strict=True)
        if verdict.trained and call.output is not None
    ]


def completion_sample(
    prompt_ids: Sequence[int],
    ids: Sequence[int],
    logprobs: Sequence[float],
    advantage: float,
    *,
    inputs: tuple[tuple[int, ...], ...] = (),
    group: str = "",
) -> Sample:
    """A single-turn sample: all tokens of the completion are trained, and no token of the prompt.
    Picks have ``inputs`` and an empty prompt, so every pick is trained."""
    return Sample(
        (*prompt_ids, *ids),
        (0,) * len(prompt_ids) + (1,) * len(ids),
        (0.0,) * len(prompt_ids) + tuple(logprobs),
        (0.0,) * len(prompt_ids) + (advantage,) * len(ids),
        inputs,
        group,
    )
