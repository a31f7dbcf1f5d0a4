"""Progress of long work: a live line in a terminal, plain lines elsewhere, and a lease file that
tells others (``python -m cosearch status``)."""

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

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

EVERY_SECONDS = 20.0
"""Plain lines come at most this far apart while work advances, so that silence means trouble."""


Heard = Callable[[str, int | None, int | None], None]
"""Told what is shown: a note, and how much of how much is done where that is said."""


class Lease:
    """Says what a running stage does, in ``folder``. Use as a context.

    ``lease.json`` is rewritten at most once a second; the lock beside it is the system's, so it
    falls with the process, however that ends. After a good end no lease stays.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock
        self._said: dict[str, Any] = {"pid": os.getpid(), "note": "starting"}
        self._written = 0.0

    def __enter__(self) -> "Lease":
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self._folder / "lease.lock").open("w")
        except OSError as error:
            raise ValueError(f"{self._folder}: cannot be written ({error})") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise ValueError(
                f"{self._folder}: another process runs this stage; wait for it or stop it"
            ) from None
        self._said["started"] = self._clock()
        self._write()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            (self._folder / "lease.json").unlink(missing_ok=True)
        else:
            self._said["error"] = " ".join(str(error).split()) or type(error).__name__
            self._write()
        self._lock.close()

    def hear(self, note: str, done: int | None, total: int | None) -> None:
        """Take down where the stage is."""
        self._said["note"] = note
        if done is not None:
            if "first" not in self._said:
                self._said["first"] = [done, self._clock()]
            if done != self._said.get("done"):
                self._said["reached"] = self._clock()
            self._said |= {"done": done, "total": total}
        if self._clock() - self._written >= 1.0:
            self._write()

    def _write(self) -> None:
        # The state of a run never depends on this file: a full disk must not end the run here.
        self._written = self._clock()
        aside = self._folder / ".lease.json.new"
        try:
            aside.write_text(json.dumps(self._said | {"updated": self._written}), "utf-8")
            aside.replace(self._folder / "lease.json")
        except OSError:
            aside.unlink(missing_ok=True)


def read_lease(folder: Path) -> tuple[Mapping[str, Any], bool]:
    """What a stage's lease says, and whether its process is alive. Raises OSError or ValueError
    where there is no lease."""
    said: Mapping[str, Any] = json.loads((folder / "lease.json").read_text("utf-8"))
    with (folder / "lease.lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return said, True
    return said, False


def unheard(note: str, done: int | None, total: int | None) -> None:
    """Nobody else is told."""


class Progress:
    """Shows one task at a time, and tells ``heard``. Use as a context."""

    def __init__(self, heard: Heard = unheard) -> None:
        self._heard = heard
        self.follow: Callable[[str, int, int, str], None] | None = None
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
        self._heard(note, done, total)
        self._standing[task] = f"{done}/{total} "
        if self.follow is not None:
            self.follow(task, done, total, note)
        if self._live:
            if task not in self._tasks:
                self._tasks[task] = self._bar.add_task(task, total=total)
            self._bar.update(self._tasks[task], completed=done, description=f"{task} {note}")
        elif done >= total or time.monotonic() - self._printed >= EVERY_SECONDS:
            self._printed = time.monotonic()
            self.say(f"{task}: {self._standing[task]}{note}".rstrip())

    def pulse(self, task: str, note: str) -> None:
        """``task`` is alive: a note beside its bar, or a line now and then."""
        self._heard(note, None, None)
        if task in self._tasks:
            self._bar.update(self._tasks[task], description=f"{task} {note}")
        elif not self._live and time.monotonic() - self._printed >= EVERY_SECONDS:
            self._printed = time.monotonic()
            self.say(f"{task}: {self._standing.get(task, '')}{note}")

    def say(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
