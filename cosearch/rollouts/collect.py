"""Rollouts of many questions in shards. The trajectories of a shard run at the same time, and a
killed run repeats at most one shard."""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Protocol

from cosearch.core.lockstep import run_lockstep
from cosearch.core.protocols import Engine, Request
from cosearch.core.types import Question, Trajectory

Play = Callable[[Question, int], Coroutine[Request, Any, Trajectory]]
"""Starts one trajectory: (question, sample number) -> coroutine."""


class Kept(Protocol):
    """Keeps finished shards over a kill; ``rollouts.shards.Shards`` implements it."""

    def read(
        self, number: int, questions: Sequence[Question], samples: int
    ) -> list[Trajectory] | None:
        """Trajectories of shard ``number``, or None if the shard is not finished."""

    def write(self, number: int, trajectories: Sequence[Trajectory]) -> None:
        """Keep a finished shard."""


def collect(
    play: Play,
    questions: Sequence[Question],
    engines: Mapping[str, Engine],
    *,
    samples: int,
    shard_questions: int,
    kept: Kept | None = None,
) -> Iterator[list[Trajectory]]:
    """Trajectories of each shard, the samples of a question side by side. A shard that ``kept``
    holds is read from there, and is not rolled out again."""
    for number, start in enumerate(range(0, len(questions), shard_questions)):
        shard = questions[start : start + shard_questions]
        found = kept.read(number, shard, samples) if kept else None
        if found is None:
            found = run_lockstep(
                [play(question, sample) for question in shard for sample in range(samples)], engines
            )
            if kept:
                kept.write(number, found)
        yield found
