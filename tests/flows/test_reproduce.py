"""The flow against a real server: DVC's graph, states with causes, the lock of a plain run."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.project import Project
from tests.pipeline.test_side_by_side import GRAPH, OUTPUTS, lock, project

__all__ = ["project"]
PATIENCE = 180.0


class Prefect:
    """A server and what it knows."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, body: object = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}{path}", content, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def flow_run(self, kind: str) -> dict[str, Any]:
        """The latest run of a flow."""
        body = {"flows": {"name": {"any_": [kind]}}, "sort": "START_TIME_DESC", "limit": 1}
        found: dict[str, Any] = self.ask("/flow_runs/filter", body)[0]
        return found

    def tasks(self, run: str, count: int) -> dict[str, dict[str, Any]]:
        """The final task runs of a flow run by name; the server learns of them a little later."""
        until = time.monotonic() + PATIENCE
        body = {"flow_runs": {"id": {"any_": [run]}}}
        while True:
            found = {task["name"]: task for task in self.ask("/task_runs/filter", body)}
            settled = all(task["state_type"] not in (None, "RUNNING") for task in found.values())
            if (len(found) == count and settled) or time.monotonic() > until:
                return found


@pytest.fixture(scope="module")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """A server on a free port, with its data in a folder of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    home = tmp_path_factory.mktemp("prefect")
    environment = os.environ | {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1"]
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--port", port], env=environment, stdout=log, stderr=log
        )
    found = Prefect(f"http://127.0.0.1:{port}/api")
    try:
        wait_until_well(found, server, home / "server.log")
        yield found
    finally:
        server.terminate()
        server.wait(PATIENCE)


def wait_until_well(prefect: Prefect, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and server.poll() is None:
        try:
            if prefect.ask("/health") is True:
                return
        except OSError:
            continue
    raise AssertionError(log.read_text("utf-8", "replace"))


@pytest.fixture
def flow_project(project: Project, prefect: Prefect, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The little graph, whose commands find the server."""
    (project.folder / "profile.yaml").write_text("profile: tiny\nroot: .\n")
    monkeypatch.setenv("PREFECT_API_URL", prefect.url)
    monkeypatch.setenv("PREFECT_HOME", str(project.folder / ".prefect"))
    return project


def reproduce(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    return project.command(sys.executable, "-m", "flows.reproduce", *words, check=False)


def test_the_flow_is_the_graph_and_the_lock_that_of_a_plain_run(
    flow_project: Project, prefect: Prefect
) -> None:
    flow_project.command("dvc", "repro", "join")
    plain = lock(flow_project)
    for name in (*OUTPUTS, "dvc.lock"):
        (flow_project.folder / name).unlink()
    done = reproduce(flow_project, "join")
    assert done.returncode == 0, done.stderr
    assert lock(flow_project) == plain
    run = prefect.flow_run("reproduce")
    tasks = prefect.tasks(run["id"], len(GRAPH))
    assert tasks.keys() == GRAPH.keys()
    waits = {
        name: {entry["id"] for entries in task["task_inputs"].values() for entry in entries}
        for name, task in tasks.items()
    }
    assert waits["join"] == {tasks["bad"]["id"], tasks["right"]["id"]}
    assert waits["left"] == waits["right"] == {tasks["shipped"]["id"]}
    assert reproduce(flow_project, "join").returncode == 0
    again = prefect.tasks(prefect.flow_run("reproduce")["id"], len(GRAPH))
    assert {task["state_name"] for task in again.values()} == {"Unchanged"}


def test_a_failure_is_told_in_one_line(flow_project: Project, prefect: Prefect) -> None:
    (flow_project.folder / "switch").write_text("off")
    done = reproduce(flow_project, "join")
    assert done.returncode == 1
    run = prefect.flow_run("reproduce")
    assert run["state_type"] == "FAILED"
    assert run["state"]["message"].startswith("1 failed, the first is bad: bad: the switch is off")
    tasks = prefect.tasks(run["id"], len(GRAPH))
    assert tasks["bad"]["state"]["message"].startswith("bad: the switch is off")
    assert tasks["join"]["state_name"] == "NotReady"


def test_without_a_server_the_flow_says_so(
    flow_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    done = reproduce(flow_project, "join")
    assert done.returncode == 1
    assert done.stdout == (
        "error: no Prefect server at http://127.0.0.1:9/api; start one with `make ui`\n"
    )
