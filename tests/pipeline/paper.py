"""Profile paper in a folder of its own, with tiny models and data in the places of the published.

What stays is the profile's: files in the published formats, its rows, exact search, and trainers
over DeepSpeed. Where a CPU has no engine of its kind, the plain one stands in: ``hf`` for ``vllm``.
"""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from cosearch.commands.models import record
from cosearch.data.world import World, build_world
from tests.pipeline.project import ROOT, Project

PROFILE = "profiles/paper/profile.yaml"
FOLDERS = {"large": "shared", "encoder": "encoder"}
"""Models of profile paper that variant ``cosearch`` uses, and what stands in for them."""
ROWS = {"train": 6, "dev": 2, "test": 2}
LISTED, LISTS = "popqa", 12
"""Whose questions the Fixed Ranker's lists are over, and how many of each source."""
IN_TURN = """
import runpy, sys
names = sys.argv[1:]
for name in names:
    sys.argv[1:] = ["--profile", "paper"]
    runpy.run_module(f"stages.{name}", run_name="__main__", alter_sys=True)
"""
"""As ``python -m stages.NAME`` does it, with what they share imported once."""
SECONDS = 600
"""After which a rank that waits for the other in vain is given up."""


def make_paper_project(folder: Path) -> Project:
    """Code, substituted parameters, models, questions and corpus."""
    project = Project.copy(folder)
    (folder / PROFILE).parent.mkdir(parents=True)
    shutil.copyfile(ROOT / PROFILE, folder / PROFILE)
    project.edit(substitute)
    for name, source in FOLDERS.items():
        shutil.copytree(folder / "models/tiny" / source, folder / "models/paper" / name)
    params = yaml.safe_load((folder / "params.yaml").read_text("utf-8"))
    write_files(params["profiles"]["paper"]["data"], folder)
    record("paper", folder)
    return project


def substitute(params: dict[str, Any]) -> None:
    """Counts, lengths and devices of profile tiny; engines and their rules stay."""
    tiny, paper = params["profiles"]["tiny"], params["profiles"]["paper"]
    for row in paper["data"]["sets"].values():
        row |= {split: count for split, count in ROWS.items() if row[split]}
    for source in paper["data"]["lists"].values():
        source["queries"] = LISTS
    paper["method"] = tiny["method"]
    paper["evaluate"]["k_grid"] = tiny["evaluate"]["k_grid"]
    paper["evaluate"]["document_tokens"] = tiny["evaluate"]["document_tokens"]
    sizes = ("max_length", "batch_size", "device", "processes")
    paper["encoder"] |= {name: tiny["encoder"][name] for name in sizes}
    for role in ("agent", "ranker", "simulator"):
        paper[role] = tiny[role] | {"vllm": paper[role]["vllm"]}
    paper["train"] |= {
        "rounds": 1, "questions": 6, "update_questions": 3, "dev_every": 1, "shard_questions": 6,
        "batch_tokens": 4096,
    }  # fmt: skip
    paper["train"]["deepspeed"]["dtype"] = "float32"
    paper["fixed_ranker"] |= {"rounds": 1, "questions": 8}


def write_files(data: Mapping[str, Any], root: Path) -> None:
    """Questions and passages of a generated world, as they are published for profile paper; the
    Fixed Ranker's queries are of a family that trains nothing here."""
    sets = {name: {split: row[split] or 0 for split in ROWS} for name, row in data["sets"].items()}
    sets[LISTED] = sets[LISTED] | {"train": 2 * LISTS}
    world, folder = build_world(sets, data["seed"]), root / data["folder"]
    for name, row in data["sets"].items():
        for split, file in row["files"].items():
            rows = (
                {"id": q.id, "question": q.text, "golden_answers": list(q.golds), "metadata": {}}
                for q in world.questions(name, split)
            )
            _write(folder / file["path"], rows)
    passages = (
        {"id": str(number), "contents": f'"{passage.title}"\n{passage.text}'}
        for number, passage in enumerate(world.passages)
    )
    _write(folder / data["corpus"], passages)
    write_list_files(data["lists"], world, folder)


def write_list_files(sources: Mapping[str, Any], world: World, folder: Path) -> None:
    """Queries with answers, and queries with judged passages of a collection of their own."""
    asked, (nq, msmarco) = world.questions(LISTED, "train"), (sources["nq"], sources["msmarco"])
    answered = (
        {"id": q.id, "question": q.text, "golden_answers": list(q.golds), "metadata": {}}
        for q in asked
    )
    _write(folder / nq["path"], answered)
    _write(folder / msmarco["path"], ({"_id": q.id, "text": q.text} for q in asked))
    passages = (
        {"_id": passage.id, "title": "", "text": f"{passage.title} : {passage.text}"}
        for passage in world.passages
    )
    _write(folder / msmarco["collection"], passages)
    lines = "".join(f"{q.id}\t{id_}\t1\n" for q in asked for id_ in q.supporting)
    (folder / msmarco["qrels"]).write_text(f"query-id\tcorpus-id\tscore\n{lines}", "utf-8")


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def run_ranks(project: Project, count: int, *words: str) -> list[subprocess.CompletedProcess[str]]:
    """A stage of profile paper as ``count`` hosts with one process each would run it, told apart
    by the variables that a launcher sets; what each process said."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    name, *rest = words
    command = [sys.executable, "-m", f"stages.{name}", "--profile", "paper", *rest]
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    base = project.environment() | {"LOCAL_RANK": "0"} | shared
    base = {key: value for key, value in base.items() if key != "RANK"}
    started = [
        subprocess.Popen(
            command, cwd=project.folder, env=base | {"RANK": str(rank)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in range(count)
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=SECONDS) for process in started]
    finally:
        for process in started:
            process.kill()
    return [
        subprocess.CompletedProcess(command, process.returncode, *texts)
        for process, texts in zip(started, said, strict=True)
    ]


def run_stages(project: Project, *names: str) -> None:
    """Stages of profile paper one after the other, in one interpreter. Raises AssertionError with
    what they said where one fails."""
    project.command(sys.executable, "-c", IN_TURN, *names)


def run_row(project: Project, name: str, row: str) -> None:
    """A row of a stage of profile paper in one process, without a launcher."""
    project.command(sys.executable, "-m", f"stages.{name}", "--profile", "paper", "--row", row)
