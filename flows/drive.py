"""Runs the ready stages of a schedule, a given number at the same time."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol

from flows.schedule import Schedule

LOOK_SECONDS = 1.0
"""Seconds between two updates of the live line while no stage ends."""


class Runner(Protocol):
    """Runs single stages."""

    def run(self, stage: str) -> str:
        """Run a stage to its end. Returns the cause of a failure, or "" after a success."""
        ...

    def stop(self) -> None:
        """End every running stage, and start no other one."""
        ...


def drive(schedule: Schedule, runner: Runner, jobs: int, look: Callable[[Schedule], None]) -> None:
    """Run every stage that can run, at most ``jobs`` at the same time.

    Calls ``look`` after every change and every second. If anything raises, this stops the stages
    and raises it again.
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
    """Start as many ready stages as ``jobs`` allows. Returns whether any stage runs."""
    for name in schedule.ready()[: jobs - len(running)]:
        schedule.start(name)
        running[pool.submit(runner.run, name)] = name
    return bool(running)
