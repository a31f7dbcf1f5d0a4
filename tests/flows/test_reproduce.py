"""The flow on a real server shows DVC's graph and the causes of failures, and leaves the same
lock."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.flows.ui import PATIENCE, Prefect
from tests.pipeline.project import Project
from tests.pipeline.test_side_by_side import (
    GRAPH,
    OUTPUTS,
    lock,
    outputs,
    project,
    stage,
    write_graph,
)

__all__ = ["project"]


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
    plain = outputs(flow_project), lock(flow_project)
    for name in (*OUTPUTS, "dvc.lock"):
        (flow_project.folder / name).unlink()
    shutil.rmtree(flow_project.folder / ".dvc" / "cache")
    done = reproduce(flow_project, "join")
    assert done.returncode == 0, done.stderr
    assert (outputs(flow_project), lock(flow_project)) == plain
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


def test_a_run_that_is_cancelled_ends_its_stages_and_goes_on(
    flow_project: Project, prefect: Prefect
) -> None:
    note = "python steps/note_run.py {0} && "
    graph = {
        "quick": stage("quick", "model", first=note.format("quick")),
        "slow": stage("slow", "quick", "gate", first=note.format("slow")),
    }
    graph["slow"]["deps"] = ["quick"]  # DVC would read the gate to hash it
    write_graph(flow_project.folder, graph)
    gate = flow_project.folder / "gate"
    os.mkfifo(gate)
    with serving_flow(flow_project):
        found = prefect.wait("/deployments/name/reproduce/cosearch", bool)
        asked = {"parameters": {"targets": ["slow"]}, "state": {"type": "SCHEDULED"}}
        run = prefect.wait(f"/deployments/{found['id']}/create_flow_run", bool, asked)["id"]
        held: list[int] = []
        opener = threading.Thread(target=lambda: held.append(os.open(gate, os.O_WRONLY)))
        opener.daemon = True
        opener.start()
        opener.join(PATIENCE)
        assert held, "the stage never came to its gate"
        stop = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
        prefect.wait(f"/flow_runs/{run}/set_state", bool, stop)
        prefect.wait(f"/flow_runs/{run}", lambda told: told["state_type"] == "CANCELLED")
    with pytest.raises(BrokenPipeError):  # the stage has ended, so the pipe has no reader
        os.write(held[0], b"x")
    os.close(held[0])
    gate.unlink()
    gate.write_text("open")
    flow_project.command("dvc", "repro", "slow")
    assert (flow_project.folder / "slow").read_text() == "weights+open"
    assert (flow_project.folder / "runs").read_text().split() == ["quick", "slow", "slow"]


@contextmanager
def serving_flow(project: Project) -> Iterator[None]:
    """``flows.serve`` at work in the project's folder."""
    with (project.folder / "serve.log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "flows.serve"],
            cwd=project.folder, env=project.environment(), stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield
    finally:
        worker.terminate()
        worker.wait(PATIENCE)


def test_without_a_server_the_flow_says_so(
    flow_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    done = reproduce(flow_project, "join")
    assert done.returncode == 1
    assert done.stdout == (
        "error: no Prefect server at http://127.0.0.1:9/api; start one with `make ui`\n"
    )
