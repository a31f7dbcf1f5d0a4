"""DVC's experiments on the real graph at micro size: each has numbers of its own."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.test_reproduce import serving_flow
from tests.flows.ui import Prefect
from tests.pipeline.project import ROOT, Project
from tests.pipeline.test_watched import copied

EVALUATED = "evaluate@rag-0"
FEW = "profiles.tiny.evaluate.questions_per_set=2"
SHORT = "profiles.tiny.train.rounds=1"
WIDTH = 100
"""Columns of a terminal that each list of numbers must fit."""
POLLS = 200
"""How often the queue is asked for its state; each time takes DVC a second."""


@pytest.fixture(scope="module")
def committed(reproduced: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The reproduced project with its lock and its numbers in a git repository."""
    project = copied(reproduced, tmp_path_factory.mktemp("committed"), ".dvc/tmp", ".runs", "rows")
    shutil.copytree(ROOT / "flows", project.folder / "flows")
    (project.folder / ".dvc" / "config").write_text("[core]\n    analytics = false\n")
    (project.folder / ".dvc" / ".gitignore").write_text("/tmp\n/cache\n/config.local\n")
    for name in (".gitignore", ".dvcignore"):
        shutil.copyfile(ROOT / name, project.folder / name)
    commit(project)
    return project


def commit(project: Project) -> None:
    project.command("git", "init", "-q", "-b", "main")
    for key, value in (("user.name", "a"), ("user.email", "a@example.org")):
        project.command("git", "config", key, value)
    project.command("git", "add", "-A")
    project.command("git", "commit", "-qm", "all")


@pytest.fixture(scope="module")
def tried(committed: Project) -> Iterator[Project]:
    """The project after two experiments: one that trains, run at once, and one from the queue."""
    before = changed(committed)
    committed.command(*experiment("short", SHORT, "--temp"), "evaluate@cosearch-0")
    committed.command(*experiment("few", FEW, "--queue"), EVALUATED)
    committed.command("dvc", "queue", "start")
    for _ in range(POLLS):
        if "Success" in (told := committed.command("dvc", "queue", "status").stdout):
            break
    assert "Success" in told
    assert changed(committed) == before == "", "the folder of the user stays as it is"
    yield committed
    committed.command("dvc", "queue", "stop", "--kill")


def experiment(name: str, override: str, how: str) -> tuple[str, ...]:
    return ("dvc", "exp", "run", how, "--name", name, "--set-param", override)


def changed(project: Project) -> str:
    return project.command("git", "status", "--porcelain").stdout


def score(project: Project, row: str) -> dict[str, Any]:
    return json.loads((project.folder / f"artifacts/tiny/metrics/{row}.json").read_text("utf-8"))


def test_an_experiment_shows_its_own_numbers(tried: Project) -> None:
    told = json.loads(tried.command("dvc", "exp", "show", "--json").stdout)
    data = {one["name"]: one["revs"][0]["data"] for one in told[1]["experiments"]}
    few = data["few"]["metrics"]["artifacts/tiny/metrics/rag-0.json"]["data"]
    assert (few["questions"], score(tried, "rag-0")["questions"]) == (14, 28)
    short = data["short"]["metrics"]["artifacts/tiny/metrics/cosearch-0.json"]["data"]
    assert short != score(tried, "cosearch-0") and short["questions"] == 28
    read = data["short"]["params"]["params.yaml"]["data"]["profiles"]["tiny"]["train"]
    assert read["rounds"] == 1


def test_the_lists_of_numbers_fit_a_terminal(tried: Project) -> None:
    shown = tried.command(sys.executable, "-m", "cosearch", "experiments").stdout
    lines = {line.split()[0]: line.split() for line in shown.splitlines() if line.strip()}
    numbers = score(tried, "cosearch-0")
    assert lines["short"][1:4] == ["success", SHORT, "cosearch-0"]
    assert lines["short"][-1] == f"{numbers['f1']:.3f}"
    assert lines["few"][2:4] == [FEW, "rag-0"]
    for words in (
        ("metrics", "show", "artifacts/tiny/metrics"),
        ("metrics", "diff", "--targets", "artifacts/tiny/metrics", "--", "HEAD", "short"),
    ):
        told = tried.command("dvc", *words).stdout
        assert "cosearch-0" in told and max(map(len, told.splitlines())) <= WIDTH
    longer = len(FEW) - len(SHORT)  # in a terminal a long value is wrapped
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= WIDTH + longer
    table = tried.command("dvc", "exp", "show", "--only-changed", "--csv").stdout
    assert len(table.splitlines()[0].split(",")) < 30


def test_an_experiment_is_kept_in_a_clone_that_has_few_rows(tried: Project, tmp_path: Path) -> None:
    """``dvc exp apply`` complains of every row that is not there; a branch brings what it has."""
    clone = Project(tmp_path / "clone")
    tried.command("git", "clone", "-q", str(tried.folder), str(clone.folder))
    shutil.copytree(tried.folder / ".dvc/cache", clone.folder / ".dvc/cache")
    shutil.rmtree(clone.folder / ".dvc/cache/runs")
    clone.command("git", "fetch", "-q", "origin", "refs/exps/*:refs/exps/*")
    clone.command("dvc", "exp", "branch", "short", "short")
    clone.command("git", "merge", "-q", "short")
    told = clone.command("dvc", "checkout", "--with-deps", "evaluate@cosearch-0")
    assert "WARNING" not in told.stderr and "ERROR" not in told.stderr
    status = clone.command("dvc", "status", "--with-deps", "evaluate@cosearch-0").stdout
    assert "Data and pipelines are up to date." in status
    assert score(clone, "cosearch-0") != score(tried, "cosearch-0")
    assert not (clone.folder / "artifacts/tiny/evaluate/core/seed_0/start").exists()


def test_an_experiment_cannot_change_which_rows_there_are(committed: Project) -> None:
    done = committed.command(
        *experiment("more", "rows.rag.part=more", "--temp"), EVALUATED, check=False
    )
    assert done.returncode
    assert "error: identity: rows.yaml: the rows of params.yaml have changed since" in done.stderr
    assert (
        "an experiment cannot do that: edit params.yaml and run `python -m cosearch rows` before it"
        in done.stderr
    )


def test_overrides_of_the_deployment_are_an_experiment(
    committed: Project, prefect: Prefect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", prefect.url)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    with serving_flow(committed):
        found = prefect.wait("/deployments/name/reproduce/cosearch", bool)
        given = {"targets": [EVALUATED], "overrides": [FEW.replace("=2", "=1")]}
        asked = {"parameters": given, "state": {"type": "SCHEDULED"}}
        run = prefect.wait(f"/deployments/{found['id']}/create_flow_run", bool, asked)
        ended = prefect.wait(
            f"/flow_runs/{run['id']}", lambda told: told["state_type"] in ("COMPLETED", "FAILED")
        )
    assert ended["state"]["message"] == f"experiment {run['name']}", ended["state"]
    told = json.loads(committed.command("dvc", "exp", "show", "--json").stdout)
    (own,) = (one for one in told[1]["experiments"] if one["name"] == run["name"])
    metrics = own["revs"][0]["data"]["metrics"]
    assert metrics["artifacts/tiny/metrics/rag-0.json"]["data"]["questions"] == 7
    assert score(committed, "rag-0")["questions"] == 28
