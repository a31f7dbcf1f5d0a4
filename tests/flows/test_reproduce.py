"""The flow against a real server: DVC's graph, states with causes, the lock of a plain run."""

import shutil
import subprocess
import sys

import pytest

from tests.flows.ui import Prefect
from tests.pipeline.project import Project
from tests.pipeline.test_side_by_side import GRAPH, OUTPUTS, lock, outputs, project

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


def test_without_a_server_the_flow_says_so(
    flow_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    done = reproduce(flow_project, "join")
    assert done.returncode == 1
    assert done.stdout == (
        "error: no Prefect server at http://127.0.0.1:9/api; start one with `make ui`\n"
    )
