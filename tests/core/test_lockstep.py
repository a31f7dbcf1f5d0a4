"""Batches start when every live trajectory waits."""

from collections.abc import Sequence
from typing import Any

import pytest

from cosearch.core.lockstep import run_lockstep
from cosearch.core.protocols import Engine, Generate, Retrieve
from tests.core.builders import SAMPLING


async def play(name: str, rounds: int) -> str:
    seen = [await Retrieve(f"{name}{turn}", 1) for turn in range(rounds)]
    return "".join(map(str, seen))


async def mixed(name: str) -> tuple[Any, Any]:
    return await Generate("agent", (1,), SAMPLING, 7), await Retrieve(name, 2)


def echo(requests: Sequence[Retrieve]) -> list[Any]:
    return [request.query for request in requests]


def counted(name: str, engine: Engine, batches: list[tuple[str, int]]) -> Engine:
    """``engine``, with every batch it gets noted down."""

    def answer(requests: Sequence[Any]) -> Sequence[Any]:
        batches.append((name, len(requests)))
        return engine(requests)

    return answer


def test_results_keep_their_order_and_batches_hold_all_who_wait() -> None:
    batches: list[tuple[str, int]] = []
    results = run_lockstep(
        [play("a", 1), play("b", 3), play("c", 0), play("d", 2)],
        {"retriever": counted("retriever", echo, batches)},
    )
    assert results == ["a0", "b0b1b2", "", "d0d1"]
    assert batches == [("retriever", 3), ("retriever", 2), ("retriever", 1)]


def test_engines_are_asked_by_name_and_in_name_order() -> None:
    batches: list[tuple[str, int]] = []
    engines = {
        "retriever": counted("retriever", echo, batches),
        "agent": counted("agent", lambda requests: ["said"] * len(requests), batches),
    }

    async def lookup() -> Any:
        return await Retrieve("first", 1)

    results = run_lockstep([lookup(), mixed("x")], engines)
    assert results == ["first", ("said", "x")]
    assert batches == [("agent", 1), ("retriever", 1), ("retriever", 1)]


def test_nothing_to_play() -> None:
    assert run_lockstep([], {}) == []


def test_an_engine_that_loses_a_request_is_found_out() -> None:
    with pytest.raises(RuntimeError, match="engine 'retriever' answered 1 of 2 requests"):
        run_lockstep([play("a", 1), play("b", 1)], {"retriever": lambda requests: ["only one"]})


def test_a_fault_of_an_engine_ends_the_round_and_closes_every_trajectory() -> None:
    closed: list[str] = []

    async def careful(name: str) -> None:
        try:
            await Retrieve(name, 1)
        finally:
            closed.append(name)

    def down(requests: Sequence[Retrieve]) -> list[Any]:
        raise ConnectionError("retriever is down")

    with pytest.raises(ConnectionError, match="retriever is down"):
        run_lockstep([careful("a"), careful("b")], {"retriever": down})
    assert closed == ["a", "b"]
