"""A killed training goes on where it stopped and ends with the same bytes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.project import Project

TRAINED = ("train/core/seed_0/cosearch/**/*",)
COMMAND = ("train", "--row", "cosearch-0")

KILLER = """
import os, runpy, signal, sys
from cosearch.rollouts import resume
original = getattr(resume.RunStore, {method!r})
calls = 0
def dying(self, *arguments, **more):
    global calls
    calls += 1
    result = original(self, *arguments, **more)
    if calls == {nth}:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(resume.RunStore, {method!r}, dying)
sys.argv = ["train", "--profile", "tiny", "--row", "cosearch-0"]
runpy.run_module("stages.train", run_name="__main__")
"""


@pytest.fixture()
def copy(reproduced: Project, tmp_path: Path) -> Project:
    """The reproduced project without its trained variant."""
    subprocess.run(["cp", "-r", f"{reproduced.folder}/.", str(tmp_path)], check=True)
    subprocess.run(
        ["rm", "-rf", str(tmp_path / "artifacts/tiny/train/core/seed_0/cosearch")], check=True
    )
    return Project(tmp_path)


@pytest.mark.parametrize(("method", "nth"), [("start", 1), ("save", 1), ("publish", 1)])
def test_a_kill_changes_no_byte(copy: Project, reproduced: Project, method: str, nth: int) -> None:
    script = KILLER.format(method=method, nth=nth)
    killed = copy.command(sys.executable, "-c", script, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert list(copy.folder.glob(".runs/tiny/train@cosearch-0/*/metrics/round_*.json"))
    copy.stage(*COMMAND)
    assert copy.bytes_of(*TRAINED) == reproduced.bytes_of(*TRAINED)
    assert not list(copy.folder.glob(".runs/tiny/train@cosearch-0/*/state"))


def test_other_parameters_start_another_run(copy: Project) -> None:
    copy.command(sys.executable, "-c", KILLER.format(method="save", nth=1), check=False)
    copy.edit(lambda params: params["rows"]["cosearch"].update(set={"reward.gamma": 0.4}))
    copy.stage(*COMMAND)
    left = list(copy.folder.glob(".runs/tiny/train@cosearch-0/*/state"))
    assert len(left) == 1
