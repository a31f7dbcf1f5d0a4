"""`make mini-train DATA=path`: two joint rounds of the real small models on real questions.

The way is a user's: ``init`` makes a profile over files of questions and passages, ``train.rounds``
is set, and the stages run. The agent's sampler computes in bfloat16 and its trainer in float32; the
ranker's types are equal. A role whose groups show no spread makes no update, and hands nothing
over: the count of updates is printed for each role. The agent must make one in every round.
"""

import gzip
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from cosearch.files.artifacts import ROLLOUT_SCHEMA
from tests.pipeline.project import ROOT, Project

ROW, NAME, ROUNDS = "cosearch-0", "small", 2
QUESTIONS = {"train": 4, "dev": 1, "test": 1}
PASSAGES = 20
"""How many passages of the published run each question brings into the corpus."""
GAP = {"agent": 0.1, "ranker": 1e-3}
"""Nats between sampler and trainer, on average: of bfloat16 against float32, and of equal types."""
STAGES = ("data", "encode", "index")


def main() -> None:
    """Play the rounds, and exit with 1 if anything is wrong with them."""
    start = time.monotonic()
    os.environ.pop("COSEARCH_DATA", None)  # the files of another profile
    with tempfile.TemporaryDirectory() as folder:
        project = prepare(Path(folder), Path(sys.argv[1]) / "mini")
        for stage in STAGES:
            run(project, f"stages.{stage}")
        print(
            f"mini-train: {ROUNDS} rounds begin after {time.monotonic() - start:.0f} s", flush=True
        )
        run(project, "stages.train", "--row", ROW)
        found = faults(project.folder / f"artifacts/{NAME}/train/core/seed_0/cosearch")
    print(f"mini-train: {'FAILED' if found else 'passed'} in {time.monotonic() - start:.0f} s")
    if found:
        sys.exit("\n".join(found))


def prepare(folder: Path, data: Path) -> Project:
    """A project with the models of profile mini and a new profile over a few of its questions."""
    project = Project.copy(folder)
    for name in ("models/mini", "profiles/mini"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(ROOT / name)
    write_files(folder, data)
    files = ("--questions", "questions.jsonl", "--corpus", "corpus.jsonl", "--name", NAME)
    project.command("python", "-m", "cosearch", "init", *files)
    project.edit(_set_rounds)
    run(project, "stages.identity")
    return project


def write_files(folder: Path, data: Path) -> None:
    """The first questions of HotpotQA's sample, and what the published run found for them."""
    with (data / "questions/hotpotqa.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in islice(lines, sum(QUESTIONS.values()))]
    splits = [split for split, count in QUESTIONS.items() for _ in range(count)]
    asked = [
        {"question": row["question"], "answer": row["golden_answers"], "split": split}
        for row, split in zip(rows, splits, strict=True)
    ]
    run = pl.read_csv(data / "bm25_top50.tsv.gz", separator="\t", infer_schema=False)
    near = run.filter(
        pl.col("dataset") == "hotpotqa",
        pl.col("question_id").is_in([row["id"] for row in rows]),
        pl.col("rank").cast(pl.Int64) <= PASSAGES,
    )
    _write(folder / "questions.jsonl", asked)
    _write(folder / "corpus.jsonl", _passages(data, set(near["passage_id"])))


def run(project: Project, module: str, *words: str) -> None:
    """Run a stage of the profile."""
    project.command(sys.executable, "-m", module, "--profile", NAME, *words)


def faults(trained: Path) -> list[str]:
    """What is wrong with the published run, in words. Prints the gaps."""
    found = [] if (trained / "agent/model.safetensors").is_file() else ["no agent was published"]
    if told := json.loads((trained / "trained.json").read_text("utf-8"))["diverged"]:
        found.append(f"the run diverged: {told}")
    files = sorted((trained / "rollouts").glob("round_*.parquet"))
    frames = [pl.read_parquet(path) for path in files]
    if any(frame.schema != ROLLOUT_SCHEMA for frame in frames):
        found.append("the Parquet's columns")
    ages = [sorted(set(frame["weights"])) for frame in frames]
    if len(ages) != ROUNDS or max(ages[-1]) < 1:
        found.append(f"no weights were handed over between rounds: their versions are {ages}")
    rounds = pl.read_csv(trained / "metrics.csv").filter(pl.col("round") > 0)
    if not rounds["agent_updates"].min():
        found.append("a round made no update of the agent")
    for role, limit in GAP.items():
        gaps = rounds[f"{role}_gap_mean"].to_list()
        updates = rounds[f"{role}_updates"].to_list()
        print(f"{role}: updates {updates}, sampler and trainer differ by {gaps} nats on average")
        if not max(gaps) < limit:
            found.append(f"{role}: sampler and trainer differ by {max(gaps):.2g} nats")
    return found


def _set_rounds(params: dict[str, Any]) -> None:
    profile = params["profiles"][NAME]
    profile["train"] |= {"rounds": ROUNDS, "questions": 2, "update_questions": 2, "dev_every": 2}
    profile["method"] |= {"rollout.group_size": 3, "rollout.top_n": 5, "rollout.max_searches": 1}
    profile["evaluate"]["k_grid"] = [1, 3]
    profile["agent"]["dtype"] = "bfloat16"


def _passages(data: Path, ids: set[str]) -> Iterator[dict[str, str]]:
    with gzip.open(data / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["id"] in ids:
                yield {key: row[key] for key in ("id", "title", "text")}


def _write(path: Path, rows: Any) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


if __name__ == "__main__":
    main()
