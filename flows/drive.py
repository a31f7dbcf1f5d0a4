"""Runs what a schedule has ready, a given number of stages at once."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol

from flows.schedule import Schedule

LOOK_SECONDS = 1.0
"""How often a live line moves while nothing ends."""


class Runner(Protocol):
    """What runs one stage."""

    def run(self, stage: str) -> str:
        """Run a stage to its end; returns the cause of a failure, empty when it went well."""
        ...

    def stop(self) -> None:
        """End every ``run`` that goes on and let none begin."""
        ...


def drive(schedule: Schedule, runner: Runner, jobs: int, look: Callable[[Schedule], None]) -> None:
    """Run every stage that can run, at most ``jobs`` at once.

    ``look`` is called at every change and every second. Whatever is raised stops the stages first.
    """
    with ThreadPoolExecutor(jobs) as pool:
        try:
            running: dict[Future[str], str] = {}
            while _start(schedule, runner, jobs, pool, running):
                look(schedule)
                ended, _ = wait(running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
                for future in ended:
                    schedule.finish(running.pop(future), future.result())
            look(schedule)
        except BaseException:
            runner.stop()
            raise


def _start(
    schedule: Schedule,
    runner: Runner,
    jobs: int,
    pool: ThreadPoolExecutor,
    running: dict[Future[str], str],
) -> bool:
    """Start what fits in; whether anything runs."""
    for name in schedule.ready()[: jobs - len(running)]:
        schedule.start(name)
        running[pool.submit(runner.run, name)] = name
    return bool(running)
