"""Engines that fail, hang or give wrong answers. A failed batch is tried again a bounded number of
times; then the run stops and its state is kept. A fault never becomes an observation or a reward.

The engine runs in the calling thread, because BLAS libraries keep a thread count per thread, and
another count changes the last bits of a result. A hang inside a library cannot be interrupted in
that thread. So a timer ends the whole process at the deadline. The state on disk is then that of a
killed run, and the same command continues from it.
"""

import faulthandler
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from cosearch.core.protocols import Choose, Engine, Generate, Retrieve
from cosearch.core.types import Candidate, Generation
from cosearch.params.engines import EngineLimits

_ROUNDING = 1e-3
"""Rounding may put the log-probability of a certain token this far above 0, in nats."""

DeadlineWatch = Callable[[str, float], AbstractContextManager[None]]
"""Opens a context in which the engine of that name has to answer within that many seconds."""
AnswerCheck = Callable[[Sequence[Any], Any], None]
"""Called with requests and answers; raises EngineFault if the answers do not fit the requests."""


class EngineFault(OSError):
    """An engine's answers do not fit its requests, or it failed at every try."""


@dataclass(frozen=True, slots=True)
class Supervision:
    """How engines are supervised: the limits of every batch, and ``sign``, which is called with a
    note after each answered batch, as a sign of life."""

    limits: EngineLimits
    sign: Callable[[str], None]


def end_process(name: str, seconds: float) -> None:
    """Print where every thread stands, and end the process with exit code 1."""
    faulthandler.dump_traceback(sys.__stderr__ or 2)
    line = f"error: engine {name} gave no answer in {seconds:g} s; the run's state is kept: run the"
    os.write(2, f"{line} same command again\n".encode())
    os._exit(1)


@contextmanager
def watched(
    name: str,
    seconds: float,
    alarm: Callable[..., Any] = threading.Timer,
    stop: Callable[[str, float], None] = end_process,
) -> Iterator[None]:
    """Call ``stop`` if the block has not ended after ``seconds`` by the clock of ``alarm``."""
    timer = alarm(seconds, stop, (name, seconds))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def guarded(
    name: str,
    engine: Engine,
    limits: EngineLimits,
    check: AnswerCheck,
    watch: DeadlineWatch = watched,
    sleep: Callable[[float], None] = time.sleep,
) -> Engine:
    """``engine`` under ``limits``. A batch that raises OSError or RuntimeError, or whose answers
    fail ``check``, is tried again; after the last try EngineFault is raised. Other errors are
    bugs, and go through."""

    def answer(requests: Sequence[Any]) -> Sequence[Any]:
        for number in range(limits.tries):
            if number:
                sleep(limits.backoff_s * 2.0 ** (number - 1))
            try:
                with watch(name, limits.deadline(len(requests))):
                    answers: Sequence[Any] = engine(requests)
                check(requests, answers)
                return answers
            except (OSError, RuntimeError) as error:
                last = error
        raise EngineFault(
            f"engine {name} failed {limits.tries} times, last with {type(last).__name__}: {last};"
            f" the run's state is kept: run the same command again"
        ) from last

    return answer


def check_answers(requests: Sequence[Any], answers: Any, vocabulary: int | None = None) -> None:
    """Raises EngineFault unless every request has one answer of its kind. Token ids must lie below
    ``vocabulary``, if it is known."""
    _check_count(requests, answers)
    for request, answer in zip(requests, answers, strict=True):
        if isinstance(request, Retrieve):
            _check_candidates(request, answer)
        else:
            _check_generation(request, answer, vocabulary)


def check_judge_scores(cases: Sequence[Any], scores: Any) -> None:
    """Raises EngineFault unless every case has one score in [0, 1]."""
    _check_count(cases, scores)
    for score in scores:
        if type(score) is not float or not 0.0 <= score <= 1.0:
            raise EngineFault(f"{score!r} is no score in [0, 1]")


def _check_count(requests: Sequence[Any], answers: Any) -> None:
    if not isinstance(answers, list | tuple):
        raise EngineFault(f"{type(answers).__name__} in place of a list of answers")
    if len(answers) != len(requests):
        raise EngineFault(f"{len(answers)} answers to {len(requests)} requests")


def _check_candidates(request: Retrieve, found: Any) -> None:
    if not isinstance(found, list | tuple) or not all(isinstance(c, Candidate) for c in found):
        raise EngineFault(f"query {request.query!r}: no list of candidates")
    if len(found) > request.n:
        raise EngineFault(
            f"query {request.query!r}: {len(found)} candidates, asked for {request.n}"
        )
    scores = [candidate.score for candidate in found]
    if not all(map(math.isfinite, scores)) or scores != sorted(scores, reverse=True):
        raise EngineFault(f"query {request.query!r}: scores {scores} are not finite, best first")


def _check_generation(request: Generate | Choose, answer: Any, vocabulary: int | None) -> None:
    if not isinstance(answer, Generation):
        raise EngineFault(f"{type(answer).__name__} in place of a generation")
    if answer.sampling != request.sampling:
        raise EngineFault(f"sampled under {answer.sampling}, asked for {request.sampling}")
    if not all(-math.inf < logprob <= _ROUNDING for logprob in answer.logprobs):
        raise EngineFault("a log-probability is not finite, or above 0")
    if isinstance(request, Choose):
        wanted, bound = min(request.count, len(request.inputs)), len(request.inputs)
        if len(answer.ids) != wanted or len(set(answer.ids)) != wanted:
            raise EngineFault(f"picked {answer.ids}, asked for {wanted} of {bound}")
    else:
        bound = vocabulary if vocabulary is not None else sys.maxsize
        if len(answer.ids) > request.sampling.max_tokens:
            raise EngineFault(f"{len(answer.ids)} tokens, asked for {request.sampling.max_tokens}")
    if not all(type(id) is int and 0 <= id < bound for id in answer.ids):
        raise EngineFault(f"an id is not among the {bound} there are")
