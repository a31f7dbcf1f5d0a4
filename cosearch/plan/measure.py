"""Measures the habits of a variant in its rollout files, and checks predictions from them.

The calibration takes means over the rollouts of one seed. The check predicts the tokens of another
seed from the sizes of the training alone, and compares them with its rollout files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cosearch.params.plan import Habits


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens in the rollouts of a training, by role.

    A role samples tokens, reads tokens (prompts and observations), and trains on tokens.
    """

    agent_sampled: float
    agent_read: float
    agent_trained: float
    ranker_sampled: float
    ranker_read: float
    ranker_trained: float

    def by_name(self) -> dict[str, float]:
        """All counts by field name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over rollout files. Tokens and habits follow from them."""

    trajectories: int
    turns: int
    calls: int
    prompt: int
    tokens: Tokens

    def habits(self, variant: str) -> Habits:
        """Means per trajectory, turn, search and call. Raises ValueError without trajectories."""
        if not self.trajectories:
            raise ValueError(f"{variant}: no trajectory in its rollouts")
        tokens, calls = self.tokens, max(1, self.calls)
        return Habits(
            measured=variant,
            searches=self.calls / self.trajectories,
            turns=self.turns / self.trajectories,
            prompt_tokens=self.prompt / self.trajectories,
            turn_tokens=tokens.agent_sampled / self.turns,
            observation_tokens=(tokens.agent_read - self.prompt) / calls,
            call_prompt_tokens=tokens.ranker_read / calls,
            call_turn_tokens=tokens.ranker_sampled / calls,
            live=tokens.agent_trained / (tokens.agent_sampled + tokens.agent_read),
            live_calls=tokens.ranker_trained / max(1.0, tokens.ranker_sampled + tokens.ranker_read),
        )


def predict(habits: Habits, trajectories: int) -> Tokens:
    """Predict the tokens of ``trajectories`` rollouts of a policy with these habits."""
    sampled = trajectories * habits.turns * habits.turn_tokens
    read = trajectories * (habits.prompt_tokens + habits.searches * habits.observation_tokens)
    calls = trajectories * habits.searches
    ranked, listed = calls * habits.call_turn_tokens, calls * habits.call_prompt_tokens
    return Tokens(
        agent_sampled=sampled,
        agent_read=read,
        agent_trained=habits.live * (sampled + read),
        ranker_sampled=ranked,
        ranker_read=listed,
        ranker_trained=habits.live_calls * (ranked + listed),
    )


def tally(folder: Path) -> Tally:
    """Count the rollout files of a training. Raises ValueError if there are none."""
    files = sorted((folder / "rollouts").glob("*.parquet"))
    if not files:
        raise ValueError(f"{folder}: no rollout files; train the variant first (`dvc repro`)")
    length, sampled = pl.col("ids").list.len(), pl.col("loss_mask").list.sum()
    live = pl.col("trainer_logprobs").is_not_null()
    spans = pl.col("spans").list
    last_turn = spans.eval(pl.element().struct.field("turn")).list.max()
    prompt = spans.eval(
        pl.when(pl.element().struct.field("kind") == "prompt").then(
            pl.element().struct.field("end") - pl.element().struct.field("start")
        )
    ).list.sum()
    counted = (
        pl.scan_parquet(files)
        .group_by("kind")
        .agg(
            rows=pl.len(),
            all=length.sum(),
            sampled=sampled.sum(),
            trained=length.filter(live).sum(),
            turns=(last_turn + 1).sum(),
            prompt=prompt.sum(),
        )
        .collect()
    )
    rows = {row["kind"]: row for row in counted.to_dicts()}
    return _tally(rows.get("trajectory", {}), rows.get("call", {}))


def _tally(agent: Mapping[str, int], calls: Mapping[str, int]) -> Tally:
    def of(row: Mapping[str, int], name: str) -> int:
        return row.get(name) or 0

    return Tally(
        trajectories=of(agent, "rows"),
        turns=of(agent, "turns"),
        calls=of(calls, "rows"),
        prompt=of(agent, "prompt"),
        tokens=Tokens(
            agent_sampled=of(agent, "sampled"),
            agent_read=of(agent, "all") - of(agent, "sampled"),
            agent_trained=of(agent, "trained"),
            ranker_sampled=of(calls, "sampled"),
            ranker_read=of(calls, "all") - of(calls, "sampled"),
            ranker_trained=of(calls, "trained"),
        ),
    )


@dataclass(frozen=True, slots=True)
class Deviation:
    """A predicted number beside the measured one."""

    name: str
    predicted: float
    measured: float

    @property
    def relative(self) -> float:
        """Absolute error of the prediction over the measured value. 0 if both are equal."""
        if self.predicted == self.measured:
            return 0.0
        return abs(self.predicted - self.measured) / max(self.measured, 1.0)


def deviations(predicted: Tokens, measured: Tokens) -> list[Deviation]:
    """The deviation of each kind of tokens."""
    found = measured.by_name()
    return [Deviation(name, value, found[name]) for name, value in predicted.by_name().items()]
