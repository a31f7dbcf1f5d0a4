"""Starts a Prefect server as ``make ui`` does, and reads its runs."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PATIENCE = 180.0
"""Seconds after which a server that does not answer counts as dead."""
LOOK_SECONDS = 0.1
ROOT = Path(__file__).parents[2]
MAKE = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PREFECT_HOME"}


class Prefect:
    """A server. ``page`` is where its UI begins, ``url`` where its API does."""

    def __init__(self, page: str) -> None:
        self.page, self.url = page, f"{page}/api"

    def ask(self, path: str, body: object = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}{path}", content, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read() or b"null")

    def flow_run(self, kind: str, tag: str | None = None) -> dict[str, Any]:
        """The latest run of a flow, among those with a tag."""
        body: dict[str, Any] = {"flows": {"name": {"any_": [kind]}}, "limit": 1}
        if tag is not None:
            body["flow_runs"] = {"tags": {"all_": [tag]}}
        found: list[dict[str, Any]] = self.ask(
            "/flow_runs/filter", body | {"sort": "START_TIME_DESC"}
        )
        assert found, f"the server knows no run of {kind}"
        return found[0]

    def tasks(self, run: str, count: int) -> dict[str, dict[str, Any]]:
        """The final task runs of a flow run by name; the server learns of them a little later."""

        def settled(tasks: list[dict[str, Any]]) -> bool:
            states = [task["state_type"] for task in tasks]
            return len(tasks) == count and not {None, "RUNNING"} & set(states)

        found = self.wait("/task_runs/filter", settled, {"flow_runs": {"id": {"any_": [run]}}})
        return {task["name"]: task for task in found}

    def wait(self, path: str, ready: Callable[[Any], bool], body: object = None) -> Any:
        """Ask until the answer is as it should be; a database that is locked is free soon."""
        until = time.monotonic() + PATIENCE
        found: Any = None
        while time.monotonic() < until:
            with suppress(OSError):
                if ready(found := self.ask(path, body)):
                    return found
            time.sleep(LOOK_SECONDS)
        raise AssertionError(f"{path}: {found}")


@contextmanager
def serving_ui(folder: Path) -> Iterator[Prefect]:
    """``make ui`` in an empty folder, on a free port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    found = Prefect(f"http://127.0.0.1:{port}")
    # The environment is there already, and another make may have started these tests.
    command = ["make", "-f", str(ROOT / "Makefile"), "-o", "setup", "ui"]
    command += [f"VENV={Path(sys.executable).parents[1]}", f"PORT={port}"]
    environment = {name: os.environ[name] for name in os.environ.keys() - MAKE}
    path = folder / "server.log"
    with path.open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        if not _well(found, server):
            raise AssertionError(path.read_text("utf-8", "replace"))
        yield found
    finally:
        server.terminate()
        server.wait(PATIENCE)


def _well(prefect: Prefect, server: subprocess.Popen[bytes]) -> bool:
    """Wait until the server says that it is well; False where it has ended or never does."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(OSError):
            if prefect.ask("/health") is True:
                return True
        with suppress(subprocess.TimeoutExpired):
            server.wait(LOOK_SECONDS)
            return False
    return False
