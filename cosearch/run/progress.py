"""Progress of long work: a bar in a terminal, plain lines in a file or a pipe."""

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
"""Seconds between two plain lines while work advances. A longer silence means a problem."""


def untold(event: Event) -> None:
    """Ignore the event. A ``Progress`` uses this until a stage connects its monitors."""


class Progress:
    """Shows the progress of tasks on standard error. Use it in a ``with`` statement.

    ``follow`` receives an event for everything that is shown.
    """

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
        """Show that ``task`` has finished ``done`` of ``total`` parts, with ``note`` behind it."""
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
        """Show that ``task`` still works: a note beside its bar, or a line every 20 seconds."""
        self.follow(Alive(note))
        if task in self._tasks:
            self._bar.update(self._tasks[task], description=f"{task} {note}")
        elif not self._live and time.monotonic() - self._printed >= EVERY_SECONDS:
            self._printed = time.monotonic()
            self.say(f"{task}: {self._standing.get(task, '')}{note}")

    def say(self, line: str) -> None:
        """Print one line above the bars."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
