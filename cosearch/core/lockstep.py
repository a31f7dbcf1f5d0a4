"""Runs trajectories as coroutines over batching engines.

A batch starts only when every unfinished trajectory waits for an answer. So the batches, and with
them the last bits of every float, depend on the inputs alone. An engine that batches continuously
could drive the same coroutines one request at a time instead.
"""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from cosearch.core.protocols import Engine, Request

Returned = TypeVar("Returned")


def run_lockstep(
    coroutines: Sequence[Coroutine[Request, Any, Returned]],
    engines: Mapping[str, Engine],
) -> list[Returned]:
    """Results of ``coroutines`` in order.

    ``engines`` maps a request's engine name to the engine. What an engine or a coroutine raises
    goes through to the caller: a fault never becomes an observation.
    """
    results: dict[int, Returned] = {}
    waiting: dict[int, Request] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(coroutines)))
    try:
        while answers:
            for index, answer in answers.items():
                try:
                    waiting[index] = coroutines[index].send(answer)
                except StopIteration as done:
                    results[index] = done.value
            answers = _answer(waiting, engines)
            waiting = {}
    finally:
        for coroutine in coroutines:
            coroutine.close()
    return [results[index] for index in range(len(coroutines))]


def _answer(waiting: Mapping[int, Request], engines: Mapping[str, Engine]) -> dict[int, Any]:
    """Answers to all waiting requests: one batch per engine, engines in alphabetical order."""
    answers: dict[int, Any] = {}
    for name in sorted({request.engine for request in waiting.values()}):
        indices = [index for index, request in waiting.items() if request.engine == name]
        batch = engines[name]([waiting[index] for index in indices])
        if len(batch) != len(indices):
            raise RuntimeError(f"engine {name!r} answered {len(batch)} of {len(indices)} requests")
        answers.update(zip(indices, batch, strict=True))
    return dict(sorted(answers.items()))
