"""A whole joint round over vLLM: trajectories, rankings, rewards, updates, hand-over, Parquet."""

from pathlib import Path

import pytest

from tests.joint_round import VLLM, play_round, prepare_project


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore::FutureWarning:vllm.*")
def test_a_joint_round_runs_over_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(prepare_project(tmp_path).folder)
    found = play_round({"engine": "vllm", "vllm": VLLM}, {})
    assert found.faults() == []
    assert set(found.rollouts["kind"]) == {"trajectory", "call"}
    assert set(found.rollouts["weights"]) == {0}
    for sampler in found.samplers.values():
        assert sampler.probe.after < 1e-4
