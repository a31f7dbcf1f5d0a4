"""What a round records: one Parquet file of rollouts and one row of metrics."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from cosearch.core.advantages import is_constant
from cosearch.core.credit import AgentVerdict, CallVerdict, CreditRules, Verdicts
from cosearch.core.shown import LEFT_OUT, left_out
from cosearch.core.types import Generation, SearchCall, Terminal, Trajectory
from cosearch.rollouts.measure import hits, mean
from cosearch.rollouts.recorded import rollout_frame, search_row, trajectory_row
from cosearch.train.learning import Prepared


@dataclass(frozen=True, slots=True)
class Round:
    """A finished round, ``number`` counted from 0. ``prepared`` and ``updates`` hold the roles that
    were trained; a role whose update failed is not in ``updates``."""

    number: int
    trajectories: Sequence[Trajectory]
    verdicts: Verdicts
    prepared: Mapping[str, Prepared]
    updates: Mapping[str, Sequence[Any]]
    dev: Mapping[str, float]

    def frame(self) -> pl.DataFrame:
        """Trajectory rows and call rows under ``ROLLOUT_SCHEMA``, in the fixed order."""
        return rollout_frame({"round": self.number + 1} | row for row in self._rows())

    def metrics(self, credit: CreditRules) -> dict[str, float]:
        """Metrics of the round; shares and means, rounded to nine digits."""
        values = {
            "round": float(self.number + 1),
            **agent_metrics(self.trajectories, self.verdicts),
            **call_metrics(self.trajectories, self.verdicts, credit.reward.hit_cutoffs),
            **self._learning(),
            **{f"dev_{name}": value for name, value in self.dev.items()},
        }
        return {name: round(value, 9) for name, value in values.items()}

    def _learning(self) -> dict[str, float]:
        values: dict[str, float] = {}
        for role, prepared in self.prepared.items():
            values[f"{role}_samples"] = len(prepared.samples)
            values[f"{role}_gap_mean"] = prepared.gap_mean
            values[f"{role}_gap_max"] = prepared.gap_max
            rows = [asdict(update) for update in self.updates.get(role, ())]
            values[f"{role}_updates"] = len(rows)
            for name in rows[0] if rows else ():
                values[f"{role}_{name}"] = mean(row[name] for row in rows)
        return values

    def _rows(self) -> Iterator[dict[str, Any]]:
        measured = {role: iter(prepared.measured) for role, prepared in self.prepared.items()}
        for trajectory, verdict, calls in zip(
            self.trajectories, self.verdicts.agent, self.verdicts.calls, strict=True
        ):
            trained = verdict.trained and "agent" in self.prepared
            values = next(measured["agent"]) if trained else None
            yield _learned_trajectory(trajectory, verdict, values) | {"trained": trained}
            for call, judged in zip(trajectory.calls, calls, strict=True):
                trained = judged.trained and "ranker" in self.prepared
                values = next(measured["ranker"]) if trained else None
                yield _learned_search(trajectory, call, judged, values) | {"trained": trained}


def agent_metrics(trajectories: Sequence[Trajectory], verdicts: Verdicts) -> dict[str, float]:
    """Rewards, ends and lengths of the agent's trajectories."""
    ends = Counter(trajectory.terminal for trajectory in trajectories)
    groups: dict[str, list[float]] = {}
    for verdict in verdicts.agent:
        groups.setdefault(verdict.group, []).append(verdict.reward)
    return {
        "r_main": mean(verdict.reward for verdict in verdicts.agent),
        **{f"end_{end.value}": ends[end] / max(1, len(trajectories)) for end in Terminal},
        "searches": mean(len(trajectory.calls) for trajectory in trajectories),
        "agent_tokens": mean(sum(trajectory.loss_mask) for trajectory in trajectories),
        "agent_constant_groups": mean(is_constant(rewards) for rewards in groups.values()),
    }


def call_metrics(
    trajectories: Sequence[Trajectory], verdicts: Verdicts, cutoffs: Sequence[int]
) -> dict[str, float]:
    """Ranking quality over all calls, the groups before and after the k_min filter, and what the
    prompts left out."""
    calls = [
        (call, verdict)
        for trajectory, row in zip(trajectories, verdicts.calls, strict=True)
        for call, verdict in zip(trajectory.calls, row, strict=True)
    ]
    answerable = [(c, v) for c, v in calls if v.reward.has_answer]
    groups: dict[str, list[float]] = {}
    for _, verdict in calls:
        if verdict.group is not None:
            groups.setdefault(verdict.group, []).append(verdict.reward.r_rank)
    return {
        "calls": len(calls),
        "has_answer": mean(v.reward.has_answer for _, v in calls),
        "shown_answer": mean(v.reward.shown_answer for _, v in answerable),
        "ranker_well_formed": mean(c.well_formed for c, _ in calls),
        "r_rel": mean(v.reward.r_rel for _, v in answerable),
        "r_rank": mean(v.reward.r_rank for _, v in calls if v.group is not None),
        **hits([(c, v.reward) for c, v in answerable], cutoffs),
        "groups": len(groups),
        "grouped_calls": sum(map(len, groups.values())),
        "ranker_constant_groups": mean(is_constant(rewards) for rewards in groups.values()),
        **_left_out(calls),
    }


def _left_out(calls: Sequence[tuple[SearchCall, CallVerdict]]) -> dict[str, float]:
    """What prompts left out, means over the calls; of a judge's prompts, over those it judged."""
    counts = [left_out(call) for call, _ in calls]
    judged = [v.reward.judgement for _, v in calls if v.reward.judgement is not None]
    return {
        **{name: mean(count[name] for count in counts) for name in LEFT_OUT},
        "dropped_judged": mean(one.dropped_documents for one in judged),
        "cut_judged": mean(one.cut_documents for one in judged),
    }


def _learned_trajectory(
    trajectory: Trajectory, verdict: AgentVerdict, measured: list[float] | None
) -> dict[str, Any]:
    return trajectory_row(trajectory) | {
        "ids": trajectory.ids,
        "loss_mask": trajectory.loss_mask,
        "logprobs": trajectory.logprobs,
        "trainer_logprobs": measured,
        "advantages": [verdict.advantage * flag for flag in trajectory.loss_mask],
        "r_main": verdict.reward,
        "group": verdict.group,
        "advantage": verdict.advantage,
        "weights": trajectory.weights,
    }


def _learned_search(
    trajectory: Trajectory, call: SearchCall, verdict: CallVerdict, measured: list[float] | None
) -> dict[str, Any]:
    row = search_row(trajectory, call, verdict.reward) | {
        "group": verdict.group,
        "advantage": verdict.advantage,
    }
    if call.output is None:
        return row
    tokens = _token_columns(call.output.prompt_ids, call.output.generation, verdict.advantage)
    return row | tokens | {"trainer_logprobs": measured}


def _token_columns(
    prompt_ids: Sequence[int], generation: Generation, advantage: float
) -> dict[str, Any]:
    before = len(prompt_ids)
    return {
        "ids": (*prompt_ids, *generation.ids),
        "loss_mask": [0] * before + [1] * len(generation.ids),
        "logprobs": [0.0] * before + list(generation.logprobs),
        "advantages": [0.0] * before + [advantage] * len(generation.ids),
        "weights": generation.weights,
    }
