"""A joint round over the engines of profile paper: rollouts, rewards, updates, hand-over, file."""

from pathlib import Path
from typing import Any

import pytest

from tests.joint_round import SAMPLED_BY_VLLM, TRAINED_BY_DEEPSPEED, play_round, prepare_project


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
