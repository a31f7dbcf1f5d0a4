"""The lease of a running stage: what ``python -m cosearch status`` reads, without a server."""

import fcntl
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from cosearch.run.events import Advanced, Alive, Ended, Event


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
        elif "error" not in self._said:
            self.tell(Ended(" ".join(str(error).split()) or type(error).__name__))
        self._lock.close()

    def tell(self, event: Event) -> None:
        """Take down where the stage is, and how it ended."""
        match event:
            case Advanced(_, done, total, note):
                self._said["note"] = note
                self._reach(done, total)
            case Alive(note):
                self._said["note"] = note
            case Ended(cause) if cause:
                self._said["error"] = cause
                self._written = 0.0
            case _:
                return
        if self._clock() - self._written >= 1.0:
            self._write()

    def _reach(self, done: int, total: int) -> None:
        if "first" not in self._said:
            self._said["first"] = [done, self._clock()]
        if done != self._said.get("done"):
            self._said["reached"] = self._clock()
        self._said |= {"done": done, "total": total}

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


def is_running(folder: Path) -> bool:
    """Whether a stage with its lease in ``folder`` runs now."""
    try:
        return read_lease(folder)[1]
    except (OSError, ValueError):
        return False
