"""Stages run side by side by DVC itself, in a little project of their own."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.pipeline.project import ROOT, Project

JOIN = "import sys, pathlib as p; p.Path(sys.argv[1]).write_text('+'.join(p.Path(a).read_text() for a in sys.argv[2:]))"  # noqa: E501
SWITCH = "import sys, pathlib as p; 'on' == p.Path('switch').read_text() or sys.exit('error: bad: the switch is off')"  # noqa: E501
NOTE = "import sys; open('runs', 'a').write(sys.argv[1] + '\\n')"
RUN = (sys.executable, "-m", "flows.side_by_side", "--jobs", "2")


def stage(name: str, *needs: str, first: str = "") -> dict[str, object]:
    """A stage that writes a file of its own name from the files it needs."""
    return {
        "cmd": f"{first}python steps/join_texts.py {name} {' '.join(needs)}",
        "deps": list(needs),
        "outs": [name],
    }


GRAPH: dict[str, dict[str, object]] = {
    "shipped": {
        "cmd": "python steps/note_run.py shipped",
        "frozen": True,
        "outs": [{"model": {"cache": False}}],
    },
    "left": stage("left", "model"),
    "right": stage("right", "model"),
    "bad": stage("bad", "left", "switch", first="python steps/need_switch.py && "),
    "join": stage("join", "bad", "right"),
}
OUTPUTS = ("left", "right", "bad", "join")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Five stages: a shipped model, two branches of which one has a switch, and their join."""
    shutil.copytree(ROOT / "flows", tmp_path / "flows")
    (tmp_path / "steps").mkdir()
    for name, text in (("join_texts", JOIN), ("need_switch", SWITCH), ("note_run", NOTE)):
        (tmp_path / "steps" / f"{name}.py").write_text(text)
    (tmp_path / "model").write_text("weights")
    (tmp_path / "switch").write_text("on")
    write_graph(tmp_path, GRAPH)
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text("[core]\n    no_scm = True\n    analytics = False\n")
    return Project(tmp_path)


def write_graph(folder: Path, stages: dict[str, dict[str, object]]) -> None:
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}, sort_keys=False))


def outputs(project: Project) -> dict[str, str]:
    return {name: (project.folder / name).read_text() for name in OUTPUTS}


def lock(project: Project) -> str:
    return (project.folder / "dvc.lock").read_text("utf-8")


def test_outputs_and_lock_are_those_of_a_plain_run(project: Project) -> None:
    project.command("dvc", "repro", "join")
    plain = outputs(project), lock(project)
    for name in (*OUTPUTS, "dvc.lock"):
        (project.folder / name).unlink()
    shutil.rmtree(project.folder / ".dvc" / "cache")
    project.command(*RUN, "join")
    assert (outputs(project), lock(project)) == plain
    assert list(yaml.safe_load(lock(project))["stages"]) != sorted(GRAPH)
    assert not (project.folder / "runs").exists(), "a frozen stage ran"


def test_a_failure_stops_what_is_below_it_alone(project: Project) -> None:
    (project.folder / "switch").write_text("off")
    done = project.command(*RUN, "join", check=False)
    assert done.returncode == 1
    assert "error: bad: bad: the switch is off" in done.stderr.splitlines()
    assert "not run: join, since bad failed" in done.stderr.splitlines()
    assert (project.folder / "right").read_text() == "weights"
    logs = project.folder / ".runs" / "logs"
    assert not (logs / "join.log").exists()
    shutil.rmtree(logs)
    (project.folder / "switch").write_text("on")
    again = project.command(*RUN, "join")
    assert again.stderr.splitlines()[0] == "3 of 5 stages unchanged"
    assert sorted(path.stem for path in logs.iterdir()) == ["bad", "join"]
    assert (project.folder / "join").read_text() == "weights+on+weights"
    assert yaml.safe_load(lock(project))["stages"].keys() == GRAPH.keys()


def test_the_plan_is_printed_and_nothing_runs(project: Project) -> None:
    planned = project.command(*RUN, "--dry", "join").stdout.splitlines()
    assert {tuple(sorted(line.replace(",", "").split())) for line in planned} == {
        ("frozen", "shipped"),
        ("after", "check", "left", "shipped"),
        ("after", "check", "right", "shipped"),
        ("after", "bad", "check", "left"),
        ("after", "bad", "check", "join", "right"),
    }
    assert not (project.folder / "left").exists() and not (project.folder / ".runs").exists()


def test_a_wrong_target_is_told_in_one_line(project: Project) -> None:
    done = project.command(*RUN, "absent", check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert "absent" in done.stderr


def test_a_stopped_run_ends_its_stages_and_goes_on_later(project: Project) -> None:
    note = "python steps/note_run.py {0} && "
    graph = {
        "quick": stage("quick", "model", first=note.format("quick")),
        "slow_1": stage("slow_1", "quick", "gate_1", first=note.format("slow")),
        "slow_2": stage("slow_2", "quick", "gate_2", first=note.format("slow")),
    }
    slow = ("slow_1", "slow_2")
    for name in slow:
        graph[name]["deps"] = ["quick"]  # DVC would read a gate to hash it
    write_graph(project.folder, graph)
    gates = [project.folder / "gate_1", project.folder / "gate_2"]
    stop_while_all_run(project, slow, gates)
    for gate in gates:
        gate.unlink()
        gate.write_text("open")
    project.command(*RUN, *slow)
    assert [(project.folder / name).read_text() for name in slow] == ["weights+open"] * 2
    runs = (project.folder / "runs").read_text().split()
    assert runs == ["quick", "slow", "slow", "slow", "slow"]


def stop_while_all_run(project: Project, targets: Sequence[str], gates: Sequence[Path]) -> None:
    """Start the run, wait until a stage reads at each gate, and end the run."""
    for gate in gates:
        os.mkfifo(gate)
    run = subprocess.Popen(
        [*RUN, *targets], cwd=project.folder, env=project.environment(), stderr=subprocess.PIPE
    )
    held: list[int] = []
    openers = [
        threading.Thread(target=lambda gate=gate: held.append(os.open(gate, os.O_WRONLY)))
        for gate in gates
    ]
    for opener in openers:
        opener.daemon = True
        opener.start()
    for opener in openers:
        opener.join(timeout=120)
    assert len(held) == len(gates), "the stages never came to their gates"
    run.send_signal(signal.SIGTERM)
    _, told = run.communicate()
    assert run.returncode == 130
    assert told.splitlines()[-1] == b"stopped; start it again to go on"
    for descriptor in held:
        with pytest.raises(BrokenPipeError):  # nobody reads: the stage is gone
            os.write(descriptor, b"x")
        os.close(descriptor)
