"""Lengths of the turns of recorded trajectories, for the simulation of a round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from cosearch.params.plan import Habits

_READ = ("prompt", "observation", "notice")
"""Kinds of spans that a policy reads; it writes the others."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a trajectory in tokens.

    Before the turn the trajectory holds ``context`` tokens. The agent reads ``read`` new ones and
    writes ``written``. Then come ``searches`` searches (0 or 1), whose ranker reads ``call_read``
    and writes ``call_written``; both are 0 where no model ranks.
    """

    context: int
    read: int
    written: int
    searches: int
    call_read: int
    call_written: int

    @property
    def length(self) -> int:
        """Tokens of the trajectory after the turn."""
        return self.context + self.read + self.written

    @property
    def ranked(self) -> bool:
        """Whether a model ranks what the turn's search found."""
        return self.call_written > 0


Script = tuple[Turn, ...]
"""The turns of a trajectory, in order."""


def read_scripts(folder: Path, habits: Habits | None = None) -> list[Script]:
    """The trajectories of the last round of a training in ``folder``.

    With ``habits`` each kind of length is scaled to the mean that they name: the spread is that of
    the run, the size that of another profile. Raises ValueError where there are no rollouts.
    """
    files = sorted((folder / "rollouts").glob("*.parquet"))
    if not files:
        raise ValueError(f"{folder}: no rollouts/*.parquet; name the folder of a training")
    rows = pl.read_parquet(files[-1])
    own = ["dataset", "question_id", "sample"]
    written = pl.col("loss_mask").list.sum().cast(pl.Int64)
    calls: dict[Any, dict[int, tuple[int, int]]] = {}
    ranked = rows.filter(pl.col("kind") == "call")
    for *key, turn, wrote, length in ranked.select(
        *own, "turn", written, pl.col("ids").list.len().alias("length")
    ).iter_rows():
        calls.setdefault(tuple(key), {})[turn] = (wrote, length - wrote)
    played = rows.filter(pl.col("kind") == "trajectory").select(*own, "spans").iter_rows()
    found = [_script(spans, calls.get(tuple(key), {})) for *key, spans in played]
    return found if habits is None else _scaled(found, habits)


def _script(spans: Sequence[Mapping[str, Any]], calls: Mapping[int, tuple[int, int]]) -> Script:
    """What the agent reads after a turn belongs to the next one."""
    count = max((span["turn"] for span in spans), default=-1) + 1
    seen, written = [0] * (count + 1), [0] * count
    for span in spans:
        length, turn = span["end"] - span["start"], span["turn"]
        if span["kind"] in _READ:
            seen[turn + (span["kind"] != "prompt")] += length
        else:
            written[turn] += length
    turns: list[Turn] = []
    for number in range(count):
        context = turns[-1].length if turns else 0
        searched = int(seen[number + 1] > 0)
        call_written, call_read = calls.get(number, (0, 0))
        turns.append(
            Turn(context, seen[number], written[number], searched, call_read, call_written)
        )
    return tuple(turns)


def _scaled(scripts: Sequence[Script], habits: Habits) -> list[Script]:
    """Each kind of length times what brings its mean to that of ``habits``."""
    every = [turn for script in scripts for turn in script]
    first = [script[0].read for script in scripts]
    later = [turn.read for script in scripts for turn in script[1:]]
    ranked = [turn for turn in every if turn.ranked]
    prompt = _factor(habits.prompt_tokens, first)
    observation = _factor(habits.observation_tokens, later)
    turn_ = _factor(habits.turn_tokens, [turn.written for turn in every])
    listed = _factor(habits.call_prompt_tokens, [turn.call_read for turn in ranked])
    call = _factor(habits.call_turn_tokens, [turn.call_written for turn in ranked])
    found = []
    for script in scripts:
        turns: list[Turn] = []
        for number, turn in enumerate(script):
            turns.append(
                Turn(
                    turns[-1].length if turns else 0,
                    round(turn.read * (observation if number else prompt)),
                    max(1, round(turn.written * turn_)),
                    turn.searches,
                    round(turn.call_read * listed),
                    max(1, round(turn.call_written * call)) if turn.ranked and call else 0,
                )
            )
        found.append(tuple(turns))
    return found


def _factor(wanted: float, lengths: Sequence[int]) -> float:
    return wanted * len(lengths) / sum(lengths) if sum(lengths) else 0.0
