"""Two processes train as one does, and state goes from process to process.

Tolerances are those of one process.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cosearch.engines.policies.ranks import Ranks
from cosearch.engines.policies.trainer_deepspeed import DeepSpeedTrainer
from cosearch.engines.policies.weights import checksum
from tests.engines.zero import worker
from tests.engines.zero.compare import (
    FIVE,
    Wanted,
    assert_alike,
    assert_same_gradients,
    assert_same_logprobs,
    assert_same_weights,
    reference,
)

ROOT = Path(__file__).resolve().parents[3]


def launch(task: str, folder: Path, processes: int) -> None:
    """Run the worker in new processes."""
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    done = subprocess.run(
        [sys.executable, "-m", *(launcher if processes > 1 else []), worker.__name__, task, folder],
        cwd=ROOT,
        env={**os.environ, "DS_ACCELERATOR": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def together(folder: Path) -> Path:
    """What two processes left in the folder of the model."""
    launch("together", folder, 2)
    return folder


@pytest.mark.parametrize("stage", [2, 3])
def test_two_processes_agree_with_torch_over_five_updates(
    together: Path, wanted: Wanted, stage: int
) -> None:
    expected, statistics = wanted
    record = json.loads((together / "record.json").read_text())[str(stage)]
    for found, other in zip(record["statistics"], statistics, strict=True):
        assert_alike(found, other)
    weights = torch.load(together / f"zero_{stage}.pt", weights_only=True)
    assert_same_weights(weights, expected)
    assert_same_logprobs(record["logprobs"], expected.logprobs(FIVE[0], 0.9))
    exported = reference(worker.plan(together / f"zero_{stage}", 1))
    assert exported.checksum() == checksum(weights)


@pytest.mark.parametrize("stage", [2, 3])
def test_two_processes_go_back_to_what_they_saved(together: Path, stage: int) -> None:
    record = json.loads((together / "record.json").read_text())[str(stage)]
    saved = checksum(torch.load(together / f"zero_{stage}.pt", weights_only=True))
    first, second = record["checksums"]
    assert first == second != saved
    assert record["restored"] == saved


@pytest.mark.parametrize("stage", [2, 3])
def test_the_number_of_processes_does_not_change_the_gradient(
    together: Path, first_gradients: list[torch.Tensor], stage: int
) -> None:
    for rank in (0, 1):
        found = torch.load(together / f"gradients_{rank}.pt", weights_only=True)
        assert_same_gradients(found[stage], first_gradients)


def test_trainers_and_samplers_take_turns_on_every_device(together: Path) -> None:
    found = json.loads((together / "turns.json").read_text())
    assert "the sampler on device 0: " in found["refused"]  # nobody had told the trainers to leave
    turns, restored, straight = found["ends"]
    assert turns == restored == straight


def test_every_process_refuses_a_loss_that_is_not_finite(together: Path) -> None:
    for rank in (0, 1):
        reason = (together / f"refused_{rank}.txt").read_text()
        assert reason == "the loss of update 0 is not finite"
    for record in json.loads((together / "record.json").read_text()).values():
        assert 4 in torch.load(record["refused"], weights_only=True)["indices"]


def test_a_new_process_goes_on_and_refuses_the_state_of_two(ranks: Ranks, together: Path) -> None:
    wanted = {}
    for stage in (2, 3):
        trainer = DeepSpeedTrainer(ranks, worker.plan(together, stage))
        trainer.update(FIVE[0], 0.9)
        trainer.save(together / f"alone_{stage}.state")
        trainer.update(FIVE[2], 0.9)
        wanted[stage] = trainer.checksum()
    launch("go_on", together, 1)
    found = json.loads((together / "went_on.json").read_text())
    for stage, expected in wanted.items():
        assert found[f"checksum_{stage}"] == expected
        assert "'ranks': 2" in found[f"refused_{stage}"]
        assert "'ranks': 1" in found[f"refused_{stage}"]
