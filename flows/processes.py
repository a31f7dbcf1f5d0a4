"""Runs each stage as a process group: ``dvc repro --single-item`` with its own log file.

All processes of a stage share one lock on the log. The lock becomes free when the last of them has
ended. This also works for processes that are no children of this one.
"""

import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from flows.graph import DVC, error_line

GRACE_SECONDS = 20.0
"""Seconds between the signal to end and the signal that kills a stage."""
POLL_SECONDS = 0.05
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Processes:
    """Runs stages through DVC. ``logs`` is the folder of their logs. Threads may share it."""

    logs: Path
    _groups: dict[int, Path] = field(init=False, default_factory=dict)
    _stopped: threading.Event = field(init=False, default_factory=threading.Event)
    _guard: threading.Lock = field(init=False, default_factory=threading.Lock)

    def log(self, stage: str) -> Path:
        """Path of the log file of a stage."""
        return self.logs / f"{stage.replace('dvc.yaml:', '')}.log"

    def run(self, stage: str, variables: Mapping[str, str] = NO_VARIABLES) -> str:
        """Let DVC check one stage and run it if anything has changed.

        DVC alone decides whether to run the stage, or to restore outputs from its cache.
        ``variables`` are added to the environment. Returns the cause of a failure, or "".
        """
        return self.execute(stage, [*DVC, "repro", "--single-item", stage], variables)

    def execute(
        self, stage: str, command: Sequence[str], variables: Mapping[str, str] = NO_VARIABLES
    ) -> str:
        """Run a command that writes to the log of ``stage``. Returns as ``run`` does."""
        path = self.log(stage)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as log:
            if not _lock(log.fileno()):
                return f"runs already, from an earlier start; see {path}"
            log.truncate(0)
            process = self._start(command, {**os.environ, **variables}, log.fileno(), path)
        if process is None:
            return "stopped"
        code = process.wait()
        with self._guard:
            self._groups.pop(process.pid)
        return error_line(path.read_text("utf-8", "replace"), code) if code else ""

    def stop(self) -> None:
        """End every stage, wait until its last process has ended, and start no other stage."""
        with self._guard:
            self._stopped.set()
            groups = dict(self._groups)
        for group in groups:
            _signal(group, signal.SIGTERM)
        until = time.monotonic() + GRACE_SECONDS
        for group, path in groups.items():
            while not _is_free(path) and time.monotonic() < until:
                time.sleep(POLL_SECONDS)
            _signal(group, signal.SIGKILL)

    def _start(
        self, command: Sequence[str], environment: Mapping[str, str], log: int, path: Path
    ) -> subprocess.Popen[bytes] | None:
        with self._guard:
            if self._stopped.is_set():
                return None
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
            self._groups[process.pid] = path
        return process


def _lock(descriptor: int) -> bool:
    """Lock an open log. Returns False if another process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_free(path: Path) -> bool:
    with path.open("rb") as log:
        return _lock(log.fileno())


def _signal(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return
