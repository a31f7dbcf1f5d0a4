"""SIGKILL at named points and at arbitrary ones: the same command ends with the same bytes."""

import random
import signal
import subprocess
from pathlib import Path

import pytest

from tests.faults.lab import Lab, kill_at, kill_at_event

TRAIN = ("train", "--row", "cosearch-0")
TRAINED = "train/core/seed_0/cosearch"
EVALUATE = ("evaluate", "--row", "cosearch-0")
EVALUATED = "evaluate/core/seed_0/cosearch"
SAMPLE = "cosearch.engines.policies.generator_hf:HfGenerator._sample"
STATE = "cosearch.rollouts.resume:RunStore"
TRAINER = "cosearch.engines.policies.trainer_torch:TorchTrainer"
WRITE = "cosearch.files.artifacts"

TRAINING_POINTS = {
    "mid-rollout, in its first shard": ("cosearch.train.joint:Remembering.__call__", 3, False),
    "mid-rollout, in its second shard": (SAMPLE, 14, False),
    "while a shard is written": ("cosearch.files.sealed:write_text", 2, False),
    "after the first shard": ("cosearch.rollouts.shards:Shards.write", 1, True),
    "between rollout and update": ("cosearch.train.loop:assign_credit", 1, False),
    "between the two updates": ("cosearch.train.loop:learn", 1, True),
    "after both updates, before evaluation": ("cosearch.train.loop:learn", 2, True),
    "in the second round's update": (f"{TRAINER}.update", 4, True),
    "mid-Parquet, before it is renamed": ("cosearch.files.durable:sync", 12, False),
    "mid-checkpoint, the first model written": (f"{TRAINER}.save", 1, True),
    "mid-checkpoint, before the old one goes": ("cosearch.rollouts.states:remove_folder", 1, False),
    "after the first round's checkpoint": (f"{STATE}.save", 1, True),
    "mid-publishing, rollouts copied": (f"{STATE}.publish", 1, True),
    "mid-publishing, one model exported": (f"{TRAINER}.export", 1, True),
    "mid-publishing, before the rename": ("cosearch.train.joint:move_folder", 1, False),
    "published, before the state goes": (f"{STATE}.discard", 1, False),
}  # fmt: skip


def check_training(calm: Lab, lab: Lab) -> None:
    """The same command ends well, with the bytes of the run that nobody disturbed."""
    ended = lab.stage(*TRAIN)
    assert ended.code == 0, ended.said
    assert lab.bytes_of(f"{TRAINED}/**/*") == calm.bytes_of(f"{TRAINED}/**/*")
    assert not list(lab.folder.glob(".runs/tiny/train@cosearch-0/*/"))


@pytest.mark.parametrize("point", TRAINING_POINTS)
def test_a_killed_training_loses_nothing(calm: Lab, tmp_path: Path, point: str) -> None:
    lab = calm.copy(tmp_path / "project", without=TRAINED)
    where, nth, after = TRAINING_POINTS[point]
    killed = lab.stage(*TRAIN, prepare=kill_at(where, nth, after=after))
    assert killed.code == -signal.SIGKILL, killed.said
    check_training(calm, lab)


@pytest.mark.parametrize(
    "point", ["in the second round's update", "mid-publishing, one model exported"]
)
def test_rounds_without_a_state_are_repeated_from_their_kept_shards(
    calm: Lab, tmp_path: Path, point: str
) -> None:
    """A state is due after three rounds, and there are two: the first one has none."""
    lab = calm.copy(tmp_path / "project", without=TRAINED)
    lab.change(**{"train.checkpoint_rounds": 3})
    where, nth, after = TRAINING_POINTS[point]
    killed = lab.stage(*TRAIN, prepare=kill_at(where, nth, after=after))
    assert killed.code == -signal.SIGKILL, killed.said
    kept = sorted(lab.folder.glob(".runs/tiny/train@cosearch-0/*/shards/*/shard_*.json"))
    assert len(kept) == (0 if "publishing" in point else 4)
    written = kill_at("cosearch.rollouts.shards:Shards.write", 1)
    ended = lab.stage(*TRAIN, prepare=written)
    assert ended.code == 0, ended.said
    assert lab.bytes_of(f"{TRAINED}/**/*") == calm.bytes_of(f"{TRAINED}/**/*")


@pytest.mark.parametrize(
    ("stage", "out", "where", "nth"),
    [
        ("data", "data", "cosearch.data.corpus:_copy_kept", 1),
        ("encode", "encoded", "cosearch.data.encode:_save", 9),
        ("encode", "encoded", "stages.encode:move_folder", 1),
        ("index", "index", "faiss:write_index", 1),
    ],
)
def test_a_killed_stage_runs_to_the_same_bytes(
    calm: Lab, tmp_path: Path, stage: str, out: str, where: str, nth: int
) -> None:
    lab = calm.copy(tmp_path / "project", without=out)
    killed = lab.stage(stage, prepare=kill_at(where, nth))
    assert killed.code == -signal.SIGKILL, killed.said
    ended = lab.stage(stage)
    assert ended.code == 0, ended.said
    assert lab.bytes_of(f"{out}/**/*") == calm.bytes_of(f"{out}/**/*")


def test_a_killed_rollout_repeats_one_shard(calm: Lab, tmp_path: Path) -> None:
    lab = calm.copy(tmp_path / "project", without=TRAINED)
    lab.stage(*TRAIN, prepare=kill_at("cosearch.rollouts.shards:Shards.write", 2))
    (kept,) = lab.folder.glob(".runs/tiny/train@cosearch-0/*/shards/round_000001/shard_*.json")
    before = kept.stat().st_mtime_ns
    lab.stage(*TRAIN, prepare=kill_at("cosearch.train.loop:assign_credit", 1))
    shards = sorted(kept.parent.iterdir())
    assert [path.name for path in shards] == ["shard_00000.json", "shard_00001.json"]
    assert kept.stat().st_mtime_ns == before
    check_training(calm, lab)


@pytest.mark.parametrize(
    ("where", "nth", "after"),
    [
        (SAMPLE, 2, False),
        ("cosearch.rollouts.shards:Shards.write", 1, True),
        ("cosearch.evaluation.systems:write_frame", 1, True),
        (f"{STATE}.discard", 1, False),
    ],
)
def test_a_killed_evaluation_repeats_no_finished_shard(
    calm: Lab, tmp_path: Path, where: str, nth: int, after: bool
) -> None:
    lab = calm.copy(tmp_path / "project", without=EVALUATED)
    killed = lab.stage(*EVALUATE, prepare=kill_at(where, nth, after=after))
    assert killed.code == -signal.SIGKILL, killed.said
    kept = len(list(lab.folder.glob(".runs/tiny/evaluate@cosearch-0/*/shards/*/shard_*.json")))
    left = kill_at("cosearch.rollouts.shards:Shards.write", 3 - kept + 1)
    ended = lab.stage(*EVALUATE, prepare=left)
    assert ended.code == 0, ended.said
    assert lab.bytes_of(f"{EVALUATED}/**/*") == calm.bytes_of(f"{EVALUATED}/**/*")
    assert not list(lab.folder.glob(".runs/tiny/evaluate@cosearch-0/*/"))


def test_a_killed_evaluation_keeps_the_committed_numbers(calm: Lab, tmp_path: Path) -> None:
    lab = calm.copy(tmp_path / "project", without=EVALUATED)
    numbers = lab.folder / "artifacts/tiny/metrics/cosearch-0.json"
    numbers.unlink()
    numbers.write_text("of the last commit")
    for words in (["init", "-q"], ["add", "-f", str(numbers)]):
        subprocess.run(["git", *words], cwd=lab.folder, check=True)
    numbers.unlink()  # as DVC does
    assert lab.stage(*EVALUATE, prepare=kill_at(SAMPLE, 2)).code == -signal.SIGKILL
    assert numbers.read_text() == "of the last commit"
    assert lab.stage(*EVALUATE).code == 0
    assert lab.bytes_of("metrics/*") == calm.bytes_of("metrics/*")


EVENTS = 77_600
"""Calls of our code in an undisturbed training, about; a kill beyond the last one kills nothing."""


@pytest.mark.extended
@pytest.mark.parametrize("seed", range(50))
def test_a_kill_at_any_event_loses_nothing(calm: Lab, tmp_path: Path, seed: int) -> None:
    lab = calm.copy(tmp_path / "project", without=TRAINED)
    count = random.Random(seed).randrange(1, EVENTS)
    killed = lab.stage(*TRAIN, prepare=kill_at_event(count))
    assert killed.code in (-signal.SIGKILL, 0), killed.said
    check_training(calm, lab)
