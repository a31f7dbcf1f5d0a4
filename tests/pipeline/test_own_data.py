"""From a folder with 50 questions and 500 passages to a results table, by the printed commands."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from cosearch.data.world import build_world
from tests.pipeline.project import Project

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
    """One row of part core."""
    for name, row in params["rows"].items():
        row["part"] = "core" if f"{name}-0" == ROW else "more"


def test_a_users_folder_comes_to_a_results_table(tmp_path: Path) -> None:
    write_folder(tmp_path / "mine")
    (tmp_path / "project").mkdir()
    project = Project.make(tmp_path / "project")
    project.edit(keep_one_row)
    files = ("--questions", "../mine/questions.jsonl", "--corpus", "../mine/corpus.jsonl")
    init = ("python", "-m", "cosearch", "init", *files, "--name", "mine", "--like", "tiny")
    told = project.command(*init, "--kind", "single").stdout.splitlines()
    assert told[0] == "questions: 50 (30 train, 10 dev, 10 test); passages: 500"
    commands = [line.split() for line in told if line.startswith("  ")]
    assert [words[0] for words in commands] == ["dvc", "dvc", "dvc", "python"]
    shown = [project.command(*words).stdout for words in commands][-1]
    row = re.search(r"CoSearch +(\d\.\d+|\d+\.\d)", shown)
    assert row, shown
    made = project.folder / "artifacts" / "mine"
    assert (made / "report/core_1/report.html").is_file()
    lock = yaml.safe_load((project.folder / "profiles/mine/dvc.lock").read_text("utf-8"))
    assert {name for name in lock["stages"] if name.startswith("train@")} == {f"train@{ROW}"}
