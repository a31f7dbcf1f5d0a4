"""The real graph at micro size as a watched flow: its lock, its pages, and a server that dies."""

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.chromium import Pipe, Tab
from tests.flows.pages import SIZE, drawn, turn, visit
from tests.flows.ui import Prefect
from tests.pipeline.project import ROOT, Project

TARGET = "train@cosearch-0"
STAGES = {"base_models", "identity", "data", "encode", "index", TARGET}
MADE = ("data/**/*", "encoded/**/*", "index/**/*")
TRAINED = ("train/core/seed_0/cosearch/**/*",)
PHASES = (
    "rollout",
    "score",
    "update_agent",
    "update_ranker",
    "hand_over",
    "evaluate",
    "checkpoint",
)

DYING = """
import os, signal
from tests.engines.servers import Handler, Server
class Dying(Handler):
    def answer(self, status, value):
        if b"Metrics of round 1" in str(self.server.asked[-1:]).encode():
            os.kill(os.getpid(), signal.SIGKILL)
        super().answer(status, value)
server = Server()
server.RequestHandlerClass = Dying
print(server.url, flush=True)
server.serve_forever()
"""
"""A server of its own process that dies over a request, before it answers."""


def copied(project: Project, folder: Path, *without: str) -> Project:
    """A copy of a project, less some of its files."""
    subprocess.run(["cp", "-r", f"{project.folder}/.", str(folder)], check=True)
    subprocess.run(["rm", "-rf", *(str(folder / name) for name in without)], check=True)
    return Project(folder)


@pytest.fixture(scope="module")
def flowed(
    reproduced: Project, prefect: Prefect, tmp_path_factory: pytest.TempPathFactory
) -> Project:
    """A copy of the project in which the flow made everything anew, as ``make flow`` does."""
    folder = tmp_path_factory.mktemp("flowed")
    project = copied(reproduced, folder, "artifacts", "dvc.lock", ".dvc/cache", ".dvc/tmp", ".runs")
    shutil.copytree(ROOT / "flows", folder / "flows")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_API_URL", prefect.url)
        patch.setenv("PREFECT_HOME", str(folder / ".prefect"))
        project.command(sys.executable, "-m", "flows.reproduce", "--jobs", "2", TARGET)
    return project


@pytest.fixture
def tab(browser: Pipe) -> Tab:
    tab = Tab(browser)
    tab.ask("Emulation.setDeviceMetricsOverride", **SIZE)
    return tab


def test_the_flow_leaves_the_lock_and_the_bytes_of_a_plain_run(
    flowed: Project, reproduced: Project, tmp_path: Path
) -> None:
    plain = copied(reproduced, tmp_path, "dvc.lock")
    told = plain.command("dvc", "repro", TARGET).stdout
    assert "Running stage" not in told, "DVC knows what it has run before"
    locks = [(one.folder / "dvc.lock").read_text("utf-8") for one in (flowed, plain)]
    assert locks[0] == locks[1]
    assert STAGES - {"base_models"} <= yaml.safe_load(locks[0])["stages"].keys() <= STAGES
    assert flowed.bytes_of(*MADE, *TRAINED) == reproduced.bytes_of(*MADE, *TRAINED)


def test_the_page_of_the_flow_draws_the_graph(flowed: Project, prefect: Prefect, tab: Tab) -> None:
    run = prefect.flow_run("reproduce")
    tasks = prefect.tasks(run["id"], len(STAGES))
    assert tasks.keys() == STAGES
    page = f"{prefect.page}/runs/flow-run/{run['id']}"
    visit(tab, page, "Completed", f"{len(STAGES)} Task runs", "reproduce")
    assert any(f"/flow_runs/{run['id']}/graph-v2" in request for request in tab.requests)
    assert drawn(tab)
    turn(tab, "Task Runs", *STAGES)
    visit(tab, f"{prefect.page}/runs/task-run/{tasks[TARGET]['id']}", "Completed")
    turn(tab, "Artifacts", "MARKDOWN", "train-cosearch-0-run")


def test_the_page_of_a_training_shows_its_rounds_and_artifacts(
    flowed: Project, prefect: Prefect, tab: Tab
) -> None:
    parent = prefect.flow_run("reproduce")
    run = prefect.flow_run("train", tag=f"reproduce:{parent['name']}")
    names = ["evaluate", *(f"round {number} {phase}" for number in (1, 2) for phase in PHASES)]
    tasks = prefect.tasks(run["id"], len(names))
    assert tasks.keys() == set(names)
    assert {task["state_type"] for task in tasks.values()} == {"COMPLETED"}
    page = f"{prefect.page}/runs/flow-run/{run['id']}"
    visit(tab, page, "Completed", TARGET, f"{len(names)} Task runs")
    assert drawn(tab)
    turn(tab, "Task Runs", "round 2 update_ranker", "round 2 checkpoint")
    turn(tab, "Artifacts", "PROGRESS", "train-cosearch-0-progress", "TABLE", "Metrics of round 2")
    chosen = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}}
    made = {row["description"]: row for row in prefect.ask("/artifacts/filter", chosen)}
    (progress,) = (row for row in made.values() if row["type"] == "progress")
    assert progress["data"] == 100.0
    visit(tab, f"{prefect.page}/artifacts/artifact/{progress['id']}", f"{TARGET}: 2/2", "100%")
    table = f"{prefect.page}/artifacts/artifact/{made['Metrics of round 2']['id']}"
    visit(tab, table, "round before", "r_main", "hit_1")


def test_a_server_that_is_killed_changes_no_byte_and_is_told_once_a_minute(
    reproduced: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = copied(reproduced, tmp_path, ".runs", "artifacts/tiny/train/core/seed_0/cosearch")
    command = [sys.executable, "-c", DYING]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        monkeypatch.setenv("PREFECT_API_URL", server.stdout.readline().strip())
        done = copy.stage("train", "--row", "cosearch-0")
    assert server.returncode == -signal.SIGKILL
    assert copy.bytes_of(*TRAINED) == reproduced.bytes_of(*TRAINED)
    lines = (copy.folder / ".runs/logs/tiny/train@cosearch-0.jsonl").read_text("utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    assert [row["event"] for row in events].count("RoundEnded") == 2
    warnings = re.findall("^warning: .*misses messages.*$", done.stdout + done.stderr, re.M)
    assert 1 <= len(warnings) <= 1 + (events[-1]["time"] - events[0]["time"]) // 60
