"""Shows the progress of many stages: a live line in a terminal, plain lines elsewhere."""

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from flows.schedule import Schedule

EVERY_SECONDS = 20.0
"""Seconds between two plain lines. A longer silence means a problem."""


@dataclass(slots=True)
class Watch:
    """Prints which stages start, run and end. ``place`` gives the path of a stage's log."""

    jobs: int
    place: Callable[[str], object]
    out: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _printed: float = field(init=False)
    _starts: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._began = self._printed = self.clock()

    def __call__(self, schedule: Schedule) -> None:
        """Print what has changed since the last call, then the state of the run."""
        for name in [name for name in self._starts if name not in schedule.running]:
            took = _duration(self.clock() - self._starts.pop(name))
            cause = schedule.failed.get(name)
            self.say(
                f"failed  {name} after {took}: {cause}" if cause else f"done    {name}, {took}"
            )
        for name in sorted(schedule.running - self._starts.keys(), key=schedule.graph.order.index):
            self._starts[name] = self.clock()
            self.say(f"start   {name}, log in {self.place(name)}")
        if self.out.isatty():
            width = shutil.get_terminal_size().columns - 1
            self.out.write(f"\r\x1b[K{self.standing(schedule)[:width]}")
            self.out.flush()
        elif self.clock() - self._printed >= EVERY_SECONDS:
            self.say(f"        {self.standing(schedule)}")

    def standing(self, schedule: Schedule) -> str:
        """The state of the run in one line: done stages, running stages, and the time."""
        now = self.clock()
        spent = {name: now - start for name, start in self._starts.items()}
        runs = ", ".join(f"{name} {_duration(seconds)}" for name, seconds in spent.items())
        left = schedule.seconds_left(self.jobs, spent)
        parts = [
            f"{len(schedule.done)}/{len(schedule.graph.order)} done",
            *([f"{len(schedule.failed)} failed"] if schedule.failed else []),
            *([f"running {runs}"] if runs else []),
            f"elapsed {_duration(now - self._began)}",
            *([f"about {_duration(left)} left"] if left is not None else []),
        ]
        return ", ".join(parts)

    def say(self, line: str) -> None:
        """Print a line above the live line."""
        self._printed = self.clock()
        clear = "\r\x1b[K" if self.out.isatty() else ""
        print(f"{clear}{line}", file=self.out, flush=True)


def _duration(seconds: float) -> str:
    """``42 s`` or ``1:05:09``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"
