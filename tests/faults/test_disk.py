"""Full disks, blocked paths, damaged files, two runs, other code: one line, and nothing is lost."""

import fcntl
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from cosearch.files.artifacts import Paths
from cosearch.rollouts import resume
from cosearch.rollouts.trained import read_trained
from cosearch.run import origin
from cosearch.statistics.results import read_results
from cosearch.tables.evidence import read_runs
from tests.disks import second_disk
from tests.faults.lab import Lab, Prepare, kill_at, limit_files
from tests.faults.test_kills import EVALUATED, TRAIN, TRAINED, check_training

RUN = ".runs/tiny/train@cosearch-0"


@pytest.fixture()
def lab(calm: Lab, tmp_path: Path) -> Lab:
    return calm.copy(tmp_path / "project", without=TRAINED)


def complaint(lab: Lab, prepare: Prepare | None = None) -> str:
    """The one line that the training ends with."""
    ended = lab.stage(*TRAIN, prepare=prepare)
    assert ended.code == 1, ended.said
    assert "Traceback" not in ended.said
    last = ended.said.strip().splitlines()[-1]
    assert last.startswith("error: train: ")
    return last


def begun(lab: Lab) -> Path:
    """A training killed in its second round; returns the run's folder."""
    lab.stage(*TRAIN, prepare=kill_at("cosearch.train.loop:assign_credit", 2))
    (folder,) = (path for path in (lab.folder / RUN).iterdir() if path.is_dir())
    return folder


@pytest.mark.parametrize(
    ("size", "what"),
    [(20_000, "shard_00000.json"), (400_000, "state/.new"), (9_000, "shard_00000.json")],
)
def test_a_full_disk_is_named_and_more_room_is_all_it_takes(
    calm: Lab, lab: Lab, size: int, what: str
) -> None:
    line = complaint(lab, limit_files(size))
    assert what in line and "cannot be written" in line
    check_training(calm, lab)


@pytest.mark.parametrize("where", [RUN, "artifacts/tiny/train/core"])
def test_a_path_that_cannot_be_written_is_named(calm: Lab, lab: Lab, where: str) -> None:
    path = lab.folder / where
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        for child in sorted(path.rglob("*"), reverse=True):
            child.rmdir()
        path.rmdir()
    path.write_text("a file where a folder should be")
    assert where in complaint(lab)
    path.unlink()
    check_training(calm, lab)


@pytest.mark.parametrize(
    ("stage", "out"), [(TRAIN, TRAINED), (("encode",), "encoded")], ids=["train", "encode"]
)
def test_runs_may_lie_on_another_disk(
    calm: Lab, tmp_path: Path, stage: tuple[str, ...], out: str
) -> None:
    lab = calm.copy(tmp_path / "project", without=out)
    with second_disk(tmp_path) as other:
        (lab.folder / ".runs").symlink_to(other)
        ended = lab.stage(*stage)
        assert ended.code == 0, ended.said
        assert lab.bytes_of(f"{out}/**/*") == calm.bytes_of(f"{out}/**/*")
        assert not list(other.glob("tiny/*/*/"))


def test_outputs_that_a_link_leads_elsewhere_are_refused(lab: Lab, tmp_path: Path) -> None:
    outputs = lab.folder / "artifacts" / "tiny"
    outputs.rename(tmp_path / "elsewhere")
    outputs.symlink_to(tmp_path / "elsewhere")
    assert "artifacts/tiny: a link to" in complaint(lab)


def test_a_second_run_at_once_is_refused(calm: Lab, lab: Lab) -> None:
    folder = lab.folder / RUN
    folder.mkdir(parents=True)
    with (folder / "lease.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another process runs this stage" in complaint(lab)
    check_training(calm, lab)


@pytest.mark.parametrize(
    "name",
    [
        *("state/round_000001/agent.pt", "state/round_000001/progress.json"),
        *("rollouts/round_001.parquet", "metrics/round_000.json", "memory/round_000001.json"),
        "shards/round_000002/shard_00000.json",
    ],
)
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_file_of_the_state_is_named(lab: Lab, name: str, damage: str) -> None:
    path = begun(lab) / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.unlink()
    path.write_bytes(content if damage == "flip" else content[: len(content) // 2])
    line = complaint(lab)
    assert f"{name}: truncated or altered" in line and "delete" in line


def other_code(changes: dict[str, str]) -> Prepare:
    """The program as if it had been edited."""
    return partial(_be_other, changes)


def _be_other(changes: dict[str, str]) -> None:
    resume.origin = lambda code: origin.origin(code) | changes  # type: ignore[attr-defined]


def test_changed_code_is_refused_or_recorded(
    calm: Lab, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(lab)
    changed = other_code({"cosearch/train/loop.py": "0" * 16, "torch": "9.9"})
    line = complaint(lab, changed)
    assert "train/loop.py changed; torch " in line and f"set {resume.ACCEPT}=1" in line
    monkeypatch.setenv(resume.ACCEPT, "1")
    ended = lab.stage(*TRAIN, prepare=changed)
    assert ended.code == 0, ended.said
    record = json.loads((lab.folder / "artifacts/tiny" / TRAINED / "trained.json").read_text())
    assert len(record["accepted"]) == 2 and record["accepted"][1].endswith(" -> 9.9")
    rollouts = f"{TRAINED}/rollouts/*"
    assert lab.bytes_of(rollouts) == calm.bytes_of(rollouts)


def test_a_new_run_names_what_is_different(lab: Lab) -> None:
    begun(lab)
    path = lab.folder / "params.yaml"
    params: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    params["rows"]["cosearch"]["set"] = {"reward.gamma": 0.4}
    path.unlink()
    path.write_text(yaml.safe_dump(params, sort_keys=False), "utf-8")
    assert "older than the project (reward.gamma 0.5 -> 0.4" in complaint(lab)
    assert lab.stage("identity").code == 0
    ended = lab.stage(*TRAIN)
    assert ended.code == 0, ended.said
    said = " ".join(ended.said.split())
    assert "a new run; against the last one (kept in .runs/tiny/train@cosearch-0/" in said
    assert "reward.gamma 0.5 -> 0.4" in said


def test_a_new_run_names_the_data_file_that_is_another_one(lab: Lab) -> None:
    begun(lab)
    path = lab.folder / "artifacts/tiny/data/dev.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.unlink()
    path.write_text("".join(lines[1:]), "utf-8")
    lab.stage(*TRAIN, prepare=kill_at("cosearch.train.loop:assign_credit", 1))
    said = (lab.folder / ".said-train").read_text("utf-8")
    assert "artifacts/tiny/data/dev.jsonl changed" in said and "train.jsonl" not in said


def test_a_damaged_model_is_not_evaluated(lab: Lab) -> None:
    assert lab.stage(*TRAIN).code == 0
    target = lab.folder / "artifacts/tiny" / TRAINED
    assert read_trained(target).diverged is None
    flip_a_bit(target / "agent" / "model.safetensors")
    with pytest.raises(ValueError, match=r"model.safetensors: truncated or altered"):
        read_trained(target)


def test_damaged_results_and_rollouts_make_no_table(lab: Lab) -> None:
    assert lab.stage(*TRAIN).code == 0
    paths = Paths(str(lab.folder / "artifacts/tiny"))
    evaluated = lab.folder / "artifacts/tiny" / EVALUATED
    (found,) = read_results([evaluated])
    assert len(found.predictions) == 7
    detached(evaluated / "calls.parquet")
    flip_a_bit(evaluated / "calls.parquet")
    with pytest.raises(ValueError, match=r"calls\.parquet: truncated or altered; evaluate"):
        read_results([evaluated])
    assert list(read_runs(paths, "core_1")) == ["cosearch"]
    flip_a_bit(paths.train("core", 0, "cosearch") / "rollouts" / "round_002.parquet")
    with pytest.raises(ValueError, match=r"round_002\.parquet: truncated or altered; train"):
        read_runs(paths, "core_1")


def flip_a_bit(path: Path) -> None:
    """What a bad disk does."""
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


def detached(path: Path) -> None:
    """A copy in place of the link that it shares with other projects."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
