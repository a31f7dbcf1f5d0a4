"""From a folder with 50 questions and 500 passages to a results table, by the printed commands."""

import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from cosearch.data.world import build_world
from cosearch.files.artifacts import ROLLOUT_SCHEMA
from tests.pipeline.project import ROOT, Project

ROW = "cosearch-0"


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def write_folder(folder: Path) -> None:
    """50 questions and 500 passages of a world with words that the shipped models know."""
    folder.mkdir()
    world = build_world({"nq": {"train": 30, "dev": 10, "test": 10}}, seed=3)
    asked = [row for split in ("train", "dev", "test") for row in world.questions("nq", split)]
    needed = {id_ for row in asked for id_ in row.supporting}
    passages = sorted(world.passages, key=lambda passage: (passage.id not in needed, passage.id))
    rows = [{"question": row.text, "answer": row.golds} for row in asked]
    write_lines(folder / "questions.jsonl", rows)
    write_lines(folder / "corpus.jsonl", [asdict(passage) for passage in passages[:500]])


def keep_one_row(params: dict[str, Any]) -> None:
    """One row of part core, trained for one round from an agent that samples in another type than
    it is trained in."""
    for name, row in params["rows"].items():
        row["part"] = "core" if f"{name}-0" == ROW else "more"
    params["profiles"]["tiny"]["train"] |= {"rounds": 1, "questions": 2}
    params["profiles"]["tiny"]["agent"]["dtype"] = "bfloat16"


def init(project: Project, *more: str) -> list[str]:
    """Make the profile ``mine`` over the files. Returns the commands that are printed."""
    files = ("--questions", "../my files/questions.jsonl", "--corpus", "../my files/corpus.jsonl")
    command = ("python", "-m", "cosearch", "init", *files, "--name", "mine", *more)
    told = project.command(*command).stdout.splitlines()
    assert told[0] == "questions: 50 (30 train, 10 dev, 10 test); passages: 500"
    return [line.strip() for line in told if line.startswith("  ")]


def shell(project: Project, lines: list[str]) -> str:
    """Give each line to the shell, as a user pastes it. Returns what the last one prints."""
    assert lines
    return [project.command("sh", "-c", line).stdout for line in lines][-1]


def scored(shown: str, label: str) -> bool:
    """Whether a table shows the F1 of the set, two averages of it, and EM in a row."""
    rows = re.findall(rf"^ *{label} {{2,}}(.*)$", shown, re.MULTILINE)
    return any(len(re.findall(r"\d\.\d{3}", row)) == 4 for row in rows)


def test_a_users_folder_comes_to_a_results_table(tmp_path: Path) -> None:
    write_folder(tmp_path / "my files")
    (tmp_path / "project").mkdir()
    project = Project.make(tmp_path / "project")
    project.edit(keep_one_row)
    shown = shell(project, init(project, "--like", "tiny", "--kind", "single"))
    assert scored(shown, "CoSearch"), shown
    made = project.folder / "artifacts" / "mine"
    assert (made / "report/core_1/report.html").is_file()
    trained = made / "train/core/seed_0/cosearch"
    assert pl.read_parquet(trained / "rollouts/round_001.parquet").schema == ROLLOUT_SCHEMA
    metrics = pl.read_csv(trained / "metrics.csv").row(-1, named=True)
    assert 1e-3 > metrics["ranker_gap_mean"] > 0, "equal types"
    assert 0.1 > metrics["agent_gap_mean"] > 1e-3, "bfloat16 against float32"
    lock = yaml.safe_load((project.folder / "profiles/mine/dvc.lock").read_text("utf-8"))
    assert {name for name in lock["stages"] if name.startswith("train@")} == {f"train@{ROW}"}
    with (tmp_path / "my files" / "corpus.jsonl").open("a", encoding="utf-8") as lines:
        lines.write('{"id": "new", "title": "New", "text": "A passage of later."}\n')
    again = ("dvc", "repro", "--single-item", "--force", "profiles/mine/dvc.yaml:data")
    refused = project.command(*again, check=False)
    assert "../my files/corpus.jsonl: missing, or another file" in refused.stderr


@pytest.mark.extended
def test_a_users_folder_comes_to_a_table_with_real_models(tmp_path: Path) -> None:
    """The default: the models of profile mini, which come from packages, in a copy without them."""
    write_folder(tmp_path / "my files")
    (tmp_path / "project").mkdir()
    project = Project.copy(tmp_path / "project")
    (project.folder / "profiles/mini").mkdir(parents=True)
    for name in ("profile.yaml", "rows.yaml"):
        shutil.copyfile(ROOT / "profiles/mini" / name, project.folder / "profiles/mini" / name)
    project.command("dvc", "init", "-q", "--no-scm")
    lines = init(project)
    lacks = project.command("python", "-m", "cosearch", "doctor", "--profile", "mine", check=False)
    (fetch,) = re.findall(r"models/mine/chat: .*; fix: (.*)", lacks.stdout)
    assert lines[0] in fetch
    shown = shell(project, lines)
    for row in ("Direct Inference", "RAG", "Retrieval Only", "Oracle"):
        assert scored(shown, row), shown
    project.command("python", "-m", "cosearch", "doctor", "--profile", "mine")
