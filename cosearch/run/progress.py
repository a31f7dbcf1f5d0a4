"""Progress of long work: a live line in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from cosearch.run.events import Advanced, Alive, Event

EVERY_SECONDS = 20.0
"""Plain lines come at most this far apart while work advances, so that silence means trouble."""


def untold(event: Event) -> None:
    """Nobody else is told."""


class Progress:
    """Shows one task at a time. Use as a context. ``follow`` is told of everything too."""

    def __init__(self) -> None:
        self.follow: Callable[[Event], None] = untold
        self._console = Console(file=sys.stderr)
        self._live = self._console.is_terminal
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._live,
        )
        self._tasks: dict[str, TaskID] = {}
        self._standing: dict[str, str] = {}
        self._printed = 0.0

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, task: str, done: int, total: int, note: str = "") -> None:
        """``task`` stands at ``done`` of ``total``; ``note`` follows it."""
        self._standing[task] = f"{done}/{total} "
        self.follow(Advanced(task, done, total, note))
        if self._live:
            if task not in self._tasks:
                self._tasks[task] = self._bar.add_task(task, total=total)
            self._bar.update(self._tasks[task], completed=done, description=f"{task} {note}")
        elif done >= total or time.monotonic() - self._printed >= EVERY_SECONDS:
            self._printed = time.monotonic()
            self.say(f"{task}: {self._standing[task]}{note}".rstrip())

    def pulse(self, task: str, note: str) -> None:
        """``task`` is alive: a note beside its bar, or a line now and then."""
        self.follow(Alive(note))
        if task in self._tasks:
            self._bar.update(self._tasks[task], description=f"{task} {note}")
        elif not self._live and time.monotonic() - self._printed >= EVERY_SECONDS:
            self._printed = time.monotonic()
            self.say(f"{task}: {self._standing.get(task, '')}{note}")

    def say(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
