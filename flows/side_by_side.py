"""Run the stages that a target needs side by side: ``python -m flows.side_by_side TARGET``.

Outputs and dvc.lock are those of a plain ``dvc repro``, which runs one stage at a time.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from flows.drive import Runner, drive
from flows.graph import GraphError, read_changed, read_graph, read_seconds, refresh
from flows.lockfile import ordered_locks
from flows.processes import Processes
from flows.schedule import Schedule, expected
from flows.watch import Watch

LOGS = Path(".runs", "logs")
STOPPED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RunStopped(BaseException):
    """A signal ended the run. It is a BaseException, so that no ``except Exception`` catches it."""


def main() -> int:
    """Run from the command line. The exit code is 0, 1 after a failure, or 130 after a signal."""
    parser = argparse.ArgumentParser(prog="python -m flows.side_by_side", description=__doc__)
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="stage of dvc.yaml")
    parser.add_argument("--jobs", type=_positive, default=2, help="stages at once (default 2)")
    parser.add_argument("--dry", action="store_true", help="print the plan and run nothing")
    arguments = parser.parse_args()
    try:
        with stoppable(), planned(arguments.targets) as schedule:
            if arguments.dry:
                print("\n".join(describe(schedule)))
                return 0
            processes = Processes(LOGS)
            return run_schedule(schedule, processes, processes.log, arguments.jobs)
    except GraphError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except RunStopped:
        print("stopped; start it again to go on", file=sys.stderr)
        return STOPPED


@contextmanager
def planned(targets: Sequence[str]) -> Iterator[Schedule]:
    """Ask DVC once for the graph and for the changed stages. After the ``with`` block, in which the
    stages may run, the locks are in the order of a plain ``dvc repro``.

    A stage is fresh if neither it nor a stage before it has changed. A fresh stage starts no
    process. For every other stage DVC checks again when its turn comes. The identities are made
    first, because DVC cannot know what they will hold.
    """
    graph = read_graph(targets)
    with ordered_locks(graph.order):
        refresh(graph)
        stale = graph.downstream(read_changed(targets) & set(graph.order))
        yield Schedule(graph, read_seconds(graph.order), frozenset(graph.order) - stale)


def describe(schedule: Schedule) -> list[str]:
    """The plan, one line per stage: action, expected seconds, and the stages before it."""
    seconds = expected(schedule.graph, schedule.seconds)
    lines = []
    for name in schedule.graph.order:
        action = "unchanged" if name in schedule.done else "check"
        action = "frozen" if name in schedule.graph.frozen else action
        waits = [
            before for before in schedule.graph.order if before in schedule.graph.upstream[name]
        ]
        cost = f" ~{seconds[name]:.0f} s" if schedule.seconds else ""
        lines.append(f"{action:9} {name}{cost}{' after ' if waits else ''}{', '.join(waits)}")
    return lines


def run_schedule(
    schedule: Schedule, runner: Runner, place: Callable[[str], object], jobs: int
) -> int:
    """Run the schedule and report the failures. ``place`` gives the path of a stage's log.

    Returns the exit code: 1 if a stage failed, else 0.
    """
    watch = Watch(jobs, place)
    watch.say(f"{len(schedule.done)} of {len(schedule.graph.order)} stages unchanged")
    drive(schedule, runner, jobs, watch)
    watch.say(watch.standing(schedule))
    for name, cause in schedule.failed.items():
        watch.say(f"error: {name}: {cause}")
    for name in filter(schedule.dropped.get, schedule.graph.order):
        watch.say(f"not run: {name}, since {schedule.dropped[name]} failed")
    return 1 if schedule.failed else 0


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise ``RunStopped`` at the first signal that ends a program, and ignore further signals.

    A signal that is ignored already, for example under nohup, stays ignored.
    """

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise RunStopped

    before = {each: signal.getsignal(each) for each in _SIGNALS}
    for each, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(each, stop)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


if __name__ == "__main__":
    sys.exit(main())
