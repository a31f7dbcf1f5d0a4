"""The code path of profile paper on a CPU, in one process and as two hosts would run it."""

import json
import shutil
import sys
from pathlib import Path

import polars as pl
import pytest
import torch
from safetensors.torch import load_file

from cosearch.files.artifacts import LISTS_SCHEMA, ROLLOUT_SCHEMA
from cosearch.run.stage import _serves
from tests.pipeline.paper import LISTS, make_paper_project, run_ranks, run_row, run_stages
from tests.pipeline.project import ROOT, Project
from tests.settings import tiny

TRAINED = Path("artifacts/paper/train/core/seed_0/cosearch")
LR = 1e-6
"""Of profile paper; AdamW's first steps move a weight by about as much."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose variant ``cosearch`` was trained for a round over DeepSpeed."""
    project = make_paper_project(tmp_path_factory.mktemp("paper"))
    run_stages(project, "identity", "data", "encode", "index")
    run_row(project, "train", "cosearch-0")
    return project


def test_a_round_over_deepspeed_trains_both_policies(trained: Project) -> None:
    rollouts = pl.read_parquet(trained.folder / TRAINED / "rollouts/round_001.parquet")
    assert rollouts.schema == ROLLOUT_SCHEMA
    assert set(rollouts["kind"]) == {"trajectory", "call"}
    before = load_file(trained.folder / "models/paper/large/model.safetensors")
    for role in ("agent", "ranker"):
        after = load_file(trained.folder / TRAINED / role / "model.safetensors")
        moved = max(float((after[name] - before[name]).abs().max()) for name in before)
        assert LR / 2 < moved < 4 * LR


def test_what_was_trained_is_evaluated(trained: Project) -> None:
    run_row(trained, "evaluate", "cosearch-0")
    folder = trained.folder / "artifacts/paper/evaluate/core/seed_0/cosearch"
    rows = pl.read_parquet(folder / "predictions.parquet")
    assert set(rows["dataset"]) == {
        "nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle",
    }  # fmt: skip


def test_lists_of_the_fixed_ranker_come_from_both_sources(trained: Project) -> None:
    run_stages(trained, "fixed_ranker_data")
    folder = trained.folder / "artifacts/paper/fixed_ranker_data"
    lists = pl.read_parquet(folder / "lists.parquet")
    assert lists.schema == LISTS_SCHEMA
    assert set(lists["dataset"]) == {"nq", "msmarco"}
    metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
    assert metrics["queries"] == 2 * LISTS >= metrics["answerable"] == len(lists)


def test_the_fixed_ranker_learns_from_both_sources(trained: Project) -> None:
    trained.command(
        sys.executable, "-m", "stages.fixed_ranker", "--profile", "paper", "--seed", "0"
    )
    folder = trained.folder / "artifacts/paper/fixed_ranker/seed_0"
    rollouts = pl.read_parquet(folder / "rollouts/round_001.parquet")
    assert set(rollouts["dataset"]) == {"nq", "msmarco"}
    assert rollouts.filter(pl.col("kind") == "call")["has_answer"].all()


@pytest.mark.extended
def test_two_hosts_train_what_one_does(trained: Project, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(trained.folder / TRAINED, alone)
    shutil.rmtree(trained.folder / TRAINED)
    done = run_ranks(trained, 2, "train", "--row", "cosearch-0")
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
    together = trained.folder / TRAINED
    first, second = (
        pl.read_parquet(folder / "rollouts/round_001.parquet") for folder in (alone, together)
    )
    measured = "trainer_logprobs"
    assert first.drop(measured).equals(second.drop(measured))
    values = [frame[measured].explode().drop_nulls().to_torch() for frame in (first, second)]
    torch.testing.assert_close(*values, rtol=0.0, atol=1e-5)
    for role in ("agent", "ranker"):
        weights = [load_file(folder / role / "model.safetensors") for folder in (alone, together)]
        torch.testing.assert_close(*weights, rtol=0.0, atol=LR / 5)


def test_a_launcher_is_refused_where_the_trainer_takes_one_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="a launcher started several ranks"):
        _serves(tiny())
