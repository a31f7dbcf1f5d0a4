"""Rollouts of many questions, shard by shard. A shard is the unit of batching and of resume."""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

from cosearch.core.lockstep import run_lockstep
from cosearch.core.protocols import Engine, Request
from cosearch.core.types import Question, Trajectory

Play = Callable[[Question, int], Coroutine[Request, Any, Trajectory]]
"""Starts one trajectory: (question, sample number) -> coroutine."""


def collect(
    play: Play,
    questions: Sequence[Question],
    engines: Mapping[str, Engine],
    *,
    samples: int,
    shard_questions: int,
) -> Iterator[list[Trajectory]]:
    """Trajectories of each shard, the samples of a question side by side."""
    for start in range(0, len(questions), shard_questions):
        shard = questions[start : start + shard_questions]
        yield run_lockstep(
            [play(question, sample) for question in shard for sample in range(samples)], engines
        )
