"""Every row of params.yaml, trained and evaluated in small, through the code that stages call."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from cosearch.evaluation.systems import evaluate_system
from cosearch.files.artifacts import ROLLOUT_SCHEMA, Paths, read_json
from cosearch.params.rows import Evaluation, Training
from cosearch.params.settings import load_settings
from cosearch.rollouts.trained import read_trained
from cosearch.run.progress import Progress
from cosearch.run.stage import Stage
from cosearch.train.joint import train_variant
from tests.pipeline.project import ROOT, Project

FILE = yaml.safe_load((ROOT / "params.yaml").read_text("utf-8"))
TRAININGS = [name for name, row in FILE["trainings"].items() if row["seed"] == 0]
EVALUATIONS = [name for name, row in FILE["evaluations"].items() if row["seed"] == 0]


@pytest.fixture(scope="module")
def folder(reproduced: Project) -> Iterator[Path]:
    """The reproduced project as working folder, with every row of the shipped parameters."""
    before = Path.cwd()
    path = reproduced.folder / "params.yaml"
    cut = path.read_text("utf-8")
    params: dict[str, Any] = yaml.safe_load(cut)
    params |= {rows: FILE[rows] for rows in ("trainings", "evaluations")}
    path.write_text(yaml.safe_dump(params, sort_keys=False), "utf-8")
    os.chdir(reproduced.folder)
    try:
        yield reproduced.folder
    finally:
        os.chdir(before)
        path.write_text(cut, "utf-8")


def stage(name: str, row: str) -> Stage:
    return Stage(name, load_settings("tiny"), Paths("tiny"), {"row": row}, Progress())


def trained(name: str) -> Path:
    """A row's training under another root than the graph's; made once."""
    here = stage("train", name)
    row: Training = here.settings.training(name)
    target = Path("rows") / "train" / row.part / f"seed_{row.seed}" / row.variant
    if not (target / "trained.json").is_file():
        train_variant(here, here.settings.variant(row.variant), row, target)
    return target


@pytest.mark.parametrize("name", TRAININGS)
def test_every_variant_trains(folder: Path, name: str) -> None:
    target = trained(name)
    left = read_trained(target)
    assert left.diverged is None
    variant = FILE["variants"][name.rpartition("-")[0]]
    assert left.models.keys() == variant["models"].keys()
    for role in variant["train"]:
        assert (Path(left.models[role]) / "model.safetensors").is_file()
    frame = pl.read_parquet(target / "rollouts" / "round_001.parquet")
    assert frame.schema == ROLLOUT_SCHEMA
    assert frame.filter(kind="trajectory").height == 3 * 8


@pytest.mark.parametrize("name", EVALUATIONS)
def test_every_system_is_evaluated(folder: Path, name: str) -> None:
    here = stage("evaluate", name)
    row: Evaluation = here.settings.evaluation(name)
    if row.needs.startswith("train/"):
        trained(f"{FILE['systems'][row.system]['variant']}-{row.seed}")
        moved = row.model_copy(update={"needs": f"../../rows/{row.needs}"})
    else:
        moved = row
    target = folder / "rows" / "evaluate" / row.system
    evaluate_system(here, moved, target)
    numbers = json.loads((target / "metrics.json").read_text("utf-8"))
    assert numbers["averages"]["micro"]["questions"] == 28


@pytest.mark.parametrize(
    ("rate", "number", "words"),
    [(100.0, 1, "is not finite"), (0.1, 2, "end_answered")],
)
def test_a_run_that_diverges_is_recorded_and_its_system_says_so(
    folder: Path, rate: float, number: int, words: str
) -> None:
    here = stage("train", "cosearch-0")
    wild = {"train.agent_lr": rate, "train.guards.patience": 1}
    variant = here.settings.variant("cosearch").model_copy(update={"set": wild})
    name = f"wild_{number}"
    target = Path("rows") / "train" / "core" / "seed_0" / name
    train_variant(here, variant, here.settings.training("cosearch-0"), target)
    left = read_trained(target)
    assert left.diverged is not None
    assert left.diverged.round == number and words in left.diverged.reason
    assert len(list((target / "rollouts").iterdir())) == number
    assert (Path(left.models["agent"]) / "model.safetensors").is_file()
    row = here.settings.evaluation("cosearch-0")
    moved = row.model_copy(update={"needs": f"../../rows/train/core/seed_0/{name}"})
    told = folder / "rows" / "evaluate" / name
    evaluate_system(stage("evaluate", "cosearch-0"), moved, told)
    status = read_json(told / "skipped.json")["status"]
    assert status == f"diverged in round {number}: {left.diverged.reason}"
    assert not (told / "predictions.parquet").exists()
