"""Engines that fail, hang or answer nonsense: bounded tries, then a stop; never an answer."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from cosearch.core.protocols import Choose, Generate, Retrieve
from cosearch.core.types import Candidate, Generation, Passage, Sampling
from cosearch.params.engines import EngineLimits
from cosearch.rollouts.deadline import (
    EngineFault,
    check_answers,
    check_judge_scores,
    guarded,
    watched,
)

SAMPLING = Sampling(1.0, 1.0, 0, 4)
WRITE = Generate("agent", (1, 2), SAMPLING, 0)
PICK = Choose("ranker", ((1,), (2,), (3,)), 2, SAMPLING, 0)
FIND = Retrieve("oslo", 2)
WRITTEN = Generation((5, 1), (-0.5, -0.1), True, SAMPLING, 0)
PICKED = Generation((2, 0), (-0.5, -0.1), True, SAMPLING, 0)
FOUND = [Candidate(Passage(str(n), "t", "x"), 0.9 - n) for n in range(2)]
LIMITS = EngineLimits(deadline_s=60.0, request_s=1.0, tries=3, backoff_s=2.0)


@contextmanager
def unwatched(name: str, seconds: float) -> Iterator[None]:
    yield


def run(engine: Callable[[Sequence[Any]], Any]) -> tuple[Any, list[float]]:
    slept: list[float] = []
    answer = guarded("retriever", engine, LIMITS, check_answers, unwatched, slept.append)
    return answer([FIND]), slept


def failing(times: int, fault: Exception) -> Callable[[Sequence[Any]], Any]:
    """An engine that fails so often, then answers."""
    left = [fault] * times

    def engine(requests: Sequence[Any]) -> Any:
        if left:
            raise left.pop()
        return [FOUND]

    return engine


@pytest.mark.parametrize("fault", [ConnectionError("gone"), RuntimeError("out of memory")])
def test_infrastructure_is_tried_again_with_growing_pauses(fault: Exception) -> None:
    assert run(failing(0, fault)) == ([FOUND], [])
    assert run(failing(2, fault)) == ([FOUND], [2.0, 4.0])
    with pytest.raises(EngineFault, match=r"retriever failed 3 times, last with .*state is kept"):
        run(failing(3, fault))


def test_a_larger_batch_may_take_longer() -> None:
    allowed: list[float] = []

    @contextmanager
    def watch(name: str, seconds: float) -> Iterator[None]:
        allowed.append(seconds)
        yield

    answer = guarded("retriever", lambda rs: [FOUND for _ in rs], LIMITS, check_answers, watch)
    answer([FIND])
    answer([FIND] * 40)
    assert allowed == [61.0, 100.0]


def test_a_bug_is_not_tried_again() -> None:
    with pytest.raises(KeyError):
        run(failing(1, KeyError("x")))


GOOD = [(WRITE, WRITTEN), (PICK, PICKED), (FIND, FOUND), (FIND, FOUND[:1]), (FIND, [])]


@pytest.mark.parametrize(("request_", "answer"), GOOD, ids=str)
def test_right_answers_pass(request_: Any, answer: Any) -> None:
    check_answers([request_], [answer], vocabulary=6)


BAD = {
    "none for all": ([WRITE], None),
    "short": ([WRITE, WRITE], [WRITTEN]),
    "long": ([WRITE], [WRITTEN, WRITTEN]),
    "wrong type": ([WRITE], ["text"]),
    "id beyond the vocabulary": ([WRITE], [replace(WRITTEN, ids=(6, 1))]),
    "negative id": ([WRITE], [replace(WRITTEN, ids=(-1, 1))]),
    "id that is no number": ([WRITE], [replace(WRITTEN, ids=("5", 1))]),
    "nan": ([WRITE], [replace(WRITTEN, logprobs=(float("nan"), 0.0))]),
    "minus infinity": ([WRITE], [replace(WRITTEN, logprobs=(float("-inf"), 0.0))]),
    "above certainty": ([WRITE], [replace(WRITTEN, logprobs=(0.5, 0.0))]),
    "too many tokens": ([WRITE], [replace(WRITTEN, ids=(1,) * 5, logprobs=(0.0,) * 5)]),
    "other sampling": ([WRITE], [replace(WRITTEN, sampling=replace(SAMPLING, temperature=0.0))]),
    "pick out of range": ([PICK], [replace(PICKED, ids=(3, 0))]),
    "pick twice": ([PICK], [replace(PICKED, ids=(0, 0))]),
    "pick too few": ([PICK], [replace(PICKED, ids=(0,), logprobs=(0.0,))]),
    "no list of candidates": ([FIND], [FOUND[0]]),
    "no candidates in it": ([FIND], [["oslo"]]),
    "more than asked for": ([FIND], [[*FOUND, FOUND[1]]]),
    "worst first": ([FIND], [FOUND[::-1]]),
    "score that is none": ([FIND], [[replace(FOUND[0], score=float("nan"))]]),
}


@pytest.mark.parametrize("name", BAD)
def test_nonsense_is_a_fault(name: str) -> None:
    requests, answers = BAD[name]
    with pytest.raises(EngineFault):
        check_answers(requests, answers, vocabulary=6)


@pytest.mark.parametrize("scores", [[0.5], [0.5, 1.2], [0.5, float("nan")], [0.5, "1"], None])
def test_a_judge_gives_every_case_a_score(scores: Any) -> None:
    check_judge_scores(["a", "b"], [0.0, 1.0])
    with pytest.raises(EngineFault):
        check_judge_scores(["a", "b"], scores)


class Alarm:
    """A timer over no clock: it rings when it is told to."""

    def __init__(self, seconds: float, action: Callable[..., None], arguments: Any) -> None:
        self.seconds, self.rings = seconds, lambda: action(*arguments)
        self.cancelled = False
        ALARMS.append(self)

    def start(self) -> None:
        """Nothing runs."""

    def cancel(self) -> None:
        self.cancelled = True


ALARMS: list[Alarm] = []


def test_the_watch_stops_what_hangs_and_nothing_else() -> None:
    ALARMS.clear()
    stopped: list[tuple[str, float]] = []
    with watched("agent", 60.0, Alarm, lambda *told: stopped.append(told)):
        assert (ALARMS[0].seconds, ALARMS[0].cancelled, stopped) == (60.0, False, [])
        ALARMS[0].rings()
    assert stopped == [("agent", 60.0)] and ALARMS[0].cancelled


HANG = """
import threading
from cosearch.params.engines import EngineLimits
from cosearch.rollouts.deadline import guarded
hang = lambda requests: threading.Event().wait()
limits = EngineLimits(deadline_s=0.1, request_s=0.0, tries=3, backoff_s=0.0)
guarded("retriever", hang, limits, lambda *_: None)([])
"""


def test_a_hanging_engine_ends_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", HANG], capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: engine retriever gave no answer in 0.1 s")
    assert 'File "<string>", line 5 in <lambda>' in done.stderr
