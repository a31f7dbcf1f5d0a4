"""One process group for each stage: ``dvc repro --single-item`` with a log of its own.

Every process of a stage holds the log open under one lock, so the lock comes free when the last of
them is gone, whoever reaps it.
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
"""So long a stage may take to end after it was told to."""
POLL_SECONDS = 0.05
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Processes:
    """Runs stages through DVC; ``logs`` is the folder of their logs. Safe to call from threads."""

    logs: Path
    _groups: dict[int, Path] = field(init=False, default_factory=dict)
    _stopped: threading.Event = field(init=False, default_factory=threading.Event)
    _guard: threading.Lock = field(init=False, default_factory=threading.Lock)

    def log(self, stage: str) -> Path:
        """Where a stage's output goes."""
        return self.logs / f"{stage.replace('dvc.yaml:', '')}.log"

    def run(self, stage: str, variables: Mapping[str, str] = NO_VARIABLES) -> str:
        """Let DVC check one stage and run it if anything changed; returns the cause of a failure.

        DVC alone decides whether there is anything to do, and restores what it has run before.
        ``variables`` join the stage's environment.
        """
        return self.execute(stage, [*DVC, "repro", "--single-item", stage], variables)

    def execute(
        self, stage: str, command: Sequence[str], variables: Mapping[str, str] = NO_VARIABLES
    ) -> str:
        """Run a command under the log of ``stage``; returns the cause of a failure."""
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
        """End every stage and wait until its last process is gone; start none any more."""
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
    """Take the lock of an open log, unless another process holds it."""
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
