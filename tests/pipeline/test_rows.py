"""Every row of params.yaml, trained and evaluated in small, through the code that stages call."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from cosearch.evaluation.systems import evaluate_system
from cosearch.files.artifacts import ROLLOUT_SCHEMA, Paths, read_json
from cosearch.params.rows import Evaluation, Training
from cosearch.params.settings import load_settings
from cosearch.rollouts.trained import read_trained
from cosearch.run.identity import identity_of
from cosearch.run.monitors.journal import Journal
from cosearch.run.progress import Progress
from cosearch.run.stage import Stage
from cosearch.train.joint import train_variant
from tests.pipeline.project import Project
from tests.settings import tiny

SETTINGS = tiny()
TRAININGS = [name for name, row in SETTINGS.graph.trainings.items() if row.seed == 0]
EVALUATIONS = [name for name, row in SETTINGS.graph.evaluations.items() if row.seed == 0]


@pytest.fixture(scope="module")
def folder(reproduced: Project) -> Iterator[Path]:
    """The reproduced project, which has every row, as working folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(reproduced.folder)
        yield reproduced.folder


def stage(name: str, row: str) -> Stage:
    settings, axes = load_settings("tiny"), {"row": row}
    identity = identity_of(settings, name, axes)
    return Stage(name, settings, Paths("tiny"), axes, Progress(), identity)


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
    variant = SETTINGS.variants[name.rpartition("-")[0]]
    assert left.models.keys() == variant.models.keys()
    for role in variant.train:
        assert (Path(left.models[role]) / "model.safetensors").is_file()
    frame = pl.read_parquet(target / "rollouts" / "round_001.parquet")
    assert frame.schema == ROLLOUT_SCHEMA
    assert frame.filter(kind="trajectory").height == 3 * 8


@pytest.mark.parametrize("name", EVALUATIONS)
def test_every_system_is_evaluated(folder: Path, name: str) -> None:
    here = stage("evaluate", name)
    row: Evaluation = here.settings.evaluation(name)
    if row.needs.startswith("train/"):
        trained(f"{SETTINGS.systems[row.system].variant}-{row.seed}")
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
    journal = folder / f"wild_{number}.jsonl"
    here = replace(stage("train", "cosearch-0"), monitor=Journal(journal))
    wild = {"train.agent_lr": rate, "train.guards.patience": 1}
    variant = here.settings.variant("cosearch").model_copy(update={"set": wild})
    name = f"wild_{number}"
    target = Path("rows") / "train" / "core" / "seed_0" / name
    train_variant(here, variant, here.settings.training("cosearch-0"), target)
    left = read_trained(target)
    assert left.diverged is not None
    assert left.diverged.round == number and words in left.diverged.reason
    told_of = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    (heard,) = (row for row in told_of if row["event"] == "TrainingDiverged")
    assert (heard["number"], heard["reason"]) == (number, left.diverged.reason)
    assert len(list((target / "rollouts").iterdir())) == number
    assert (Path(left.models["agent"]) / "model.safetensors").is_file()
    row = here.settings.evaluation("cosearch-0")
    moved = row.model_copy(update={"needs": f"../../rows/train/core/seed_0/{name}"})
    told = folder / "rows" / "evaluate" / name
    evaluate_system(stage("evaluate", "cosearch-0"), moved, told)
    status = read_json(told / "skipped.json")["status"]
    assert status == f"diverged in round {number}: {left.diverged.reason}"
    assert not (told / "predictions.parquet").exists()
