"""A joint round over the engines of profile paper: rollouts, rewards, updates, hand-over, file."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import joint_round
from tests.joint_round import (
    SAMPLED_BY_VLLM,
    TRAINED_BY_DEEPSPEED,
    WITH_A_REPLICA_MORE,
    play_round,
    prepare_project,
)

ROOT = Path(__file__).parents[2]


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore::FutureWarning:vllm.*")
@pytest.mark.parametrize("trainers", [{}, TRAINED_BY_DEEPSPEED], ids=["torch", "deepspeed"])
def test_a_joint_round_runs_over_vllm(
    trainers: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(prepare_project(tmp_path, SAMPLED_BY_VLLM | trainers).folder)
    found = play_round()
    assert found.faults() == []
    assert set(found.rollouts["kind"]) == {"trajectory", "call"}
    assert set(found.rollouts["weights"]) == {0}
    for sampler in found.samplers.values():
        assert 0 < sampler.gap < 1e-4
        sampler.close()


@pytest.mark.vllm
def test_a_joint_round_runs_under_a_launcher_with_two_replicas(tmp_path: Path) -> None:
    """The launcher's variables speak of the trainers; torch would take them for the replicas'."""
    folder = prepare_project(tmp_path, WITH_A_REPLICA_MORE | TRAINED_BY_DEEPSPEED).folder
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    done = subprocess.run(
        [sys.executable, *launcher, "-m", joint_round.__name__],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "the round is sound" in done.stdout
