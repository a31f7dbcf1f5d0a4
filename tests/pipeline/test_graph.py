"""The whole graph, end to end, through DVC."""

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cosearch.files.artifacts import ROLLOUT_SCHEMA
from tests.pipeline.project import Project, ran
from tests.pipeline.test_watched import copied

KINDS = ("train", "gate", "evaluate")
NUMBERS = {"f1", "em", "searches", "questions"}
VARIANTS = ("retrieval_only", "fixed_ranker", "cosearch")


def test_nothing_is_left_to_do_after_a_reproduction(reproduced: Project) -> None:
    again = reproduced.command("dvc", "repro", "report@core_1")
    assert "Running stage" not in again.stdout
    assert "Data and pipelines are up to date" in again.stdout + again.stderr


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_round_leaves_rows_of_the_documented_schema(
    reproduced: Project, variant: str
) -> None:
    folder = reproduced.folder / "artifacts/tiny/train/core/seed_0" / variant
    files = sorted(folder.glob("rollouts/*.parquet"))
    assert [path.name for path in files] == ["round_001.parquet", "round_002.parquet"]
    for number, path in enumerate(files, start=1):
        frame = pl.read_parquet(path)
        assert frame.schema == ROLLOUT_SCHEMA
        assert frame["round"].unique().to_list() == [number]
        trajectories = frame.filter(kind="trajectory")
        assert trajectories.height == 3 * 8
        for row in frame.filter(pl.col("ids").is_not_null()).iter_rows(named=True):
            columns = [row[name] for name in ("ids", "loss_mask", "logprobs", "advantages")]
            assert len({len(column) for column in columns}) == 1
            assert row["trainer_logprobs"] is None or len(row["trainer_logprobs"]) == len(
                row["ids"]
            )
            assert all(flag or not value for flag, value in zip(*columns[1::2], strict=True))
        for row in trajectories.iter_rows(named=True):
            edges = [(span["start"], span["end"]) for span in row["spans"]]
            assert [0, *(end for _, end in edges)] == [
                *(start for start, _ in edges),
                len(row["ids"]),
            ]


def test_the_sampler_agrees_with_the_trainer(reproduced: Project) -> None:
    for path in (reproduced.folder / "artifacts/tiny/train").glob("*/*/*/rollouts/*.parquet"):
        frame = pl.read_parquet(path).drop_nulls("trainer_logprobs")
        for row in frame.iter_rows(named=True):
            assert row["trainer_logprobs"] == pytest.approx(row["logprobs"], abs=1e-3)


def test_a_frozen_ranker_decodes_greedily_and_a_learning_one_does_not(reproduced: Project) -> None:
    temperatures = {}
    for variant in VARIANTS[1:]:
        folder = reproduced.folder / "artifacts/tiny/train/core/seed_0" / variant
        path = folder / "rollouts/round_001.parquet"
        calls = pl.read_parquet(path).filter(kind="call")
        used = calls["sampling"].struct.field("temperature").unique().to_list()
        temperatures[variant] = used
    assert temperatures == {"fixed_ranker": [0.0], "cosearch": [1.0]}


def test_a_part_without_trained_rows_is_collected(reproduced: Project, tmp_path: Path) -> None:
    project = copied(reproduced, tmp_path, ".runs", "artifacts/tiny/train", "artifacts/tiny/gate")
    project.edit(keep_untrained_rows)
    project.command("dvc", "repro", "-q", "identity")
    project.command("dvc", "repro", "-q", "--single-item", "collected@core-0")
    told = json.loads((project.folder / "artifacts/tiny/collected/core-0.json").read_text())
    assert {path.split("/")[2] for path in told} == {"evaluate", "data"}


def keep_untrained_rows(params: dict[str, Any]) -> None:
    for row in params["rows"].values():
        row["part"] = "more" if row.get("train") or "like" in row else row.get("part", "more")


def test_an_evaluation_shows_its_scores_to_those_who_watch(reproduced: Project) -> None:
    lines = (reproduced.folder / ".runs/logs/tiny/evaluate@cosearch-0.jsonl").read_text("utf-8")
    events = [json.loads(line) for line in lines.splitlines()]
    (told,) = [event for event in events if event["event"] == "TablePublished"]
    scores = json.loads(
        (
            reproduced.folder / "artifacts/tiny/evaluate/core/seed_0/cosearch/metrics.json"
        ).read_text()
    )
    shown = {row["set"]: row["f1"] for row in told["rows"]}
    assert told["title"] == "Scores of CoSearch" and len(shown) == 3 + 7
    assert shown["average (macro)"] == scores["averages"]["macro"]["f1"]
    assert shown["musique"] == scores["datasets"]["musique"]["f1"]


def test_weights_move_only_where_a_role_learns(reproduced: Project) -> None:
    folder = reproduced.folder / "artifacts/tiny/train/core/seed_0"
    models = {
        variant: json.loads((folder / variant / "trained.json").read_text())["models"]
        for variant in VARIANTS
    }
    assert models["retrieval_only"].keys() == {"agent"}
    assert models["fixed_ranker"]["ranker"].startswith("artifacts/tiny/fixed_ranker/seed_0")
    assert models["cosearch"]["ranker"].endswith("cosearch/ranker")
    base = (reproduced.folder / "models/tiny/ranker/model.safetensors").read_bytes()
    trained = (reproduced.folder / models["cosearch"]["ranker"] / "model.safetensors").read_bytes()
    assert base != trained


def test_every_table_is_written_in_three_formats(reproduced: Project) -> None:
    names = {path.rsplit("/", 1)[-1] for path in reproduced.bytes_of("tables/core_1/*")}
    assert {f"main_large.{kind}" for kind in ("md", "csv", "tex")} | {"comparisons.md"} <= names
    folder = reproduced.folder / "artifacts/tiny"
    assert "not run" in (folder / "tables/core_1/main_large.md").read_text()
    assert reproduced.bytes_of("oracle_gap/core_1/*")
    page = (folder / "report/core_1/report.html").read_text("utf-8")
    assert "not comparable with the paper" in page
    assert "seconds" in page
    assert "seconds |" not in (folder / "report/core_1/report.md").read_text("utf-8")


def test_no_artifact_holds_a_path_of_the_machine(reproduced: Project) -> None:
    for name, content in reproduced.bytes_of("**/*").items():
        assert str(reproduced.folder).encode() not in content, name


def test_metrics_and_plots_are_declared(reproduced: Project) -> None:
    shown = json.loads(reproduced.command("dvc", "metrics", "show", "--json").stdout)
    files = next(iter(shown.values()))["data"]
    assert files["artifacts/tiny/metrics/cosearch-0.json"]["data"].keys() == NUMBERS
    listed = reproduced.command("dvc", "plots", "show", "--json", check=False).stdout
    assert "curves.csv" in listed


def test_one_edited_key_reruns_one_variant_and_what_follows(reproduced: Project) -> None:
    def gentler(params: dict[str, Any]) -> None:
        params["rows"]["cosearch"]["set"] = {"reward.use_main": False}

    def restored(params: dict[str, Any]) -> None:
        del params["rows"]["cosearch"]["set"]

    reproduced.edit(gentler)
    try:
        running = reproduced.stale("report@core_1")
    finally:
        reproduced.edit(restored)
    own = {f"{stage}@cosearch-0" for stage in ("train", "gate", "evaluate")}
    assert running == own | {f"{stage}@core_1" for stage in ("oracle_gap", "tables", "report")}


def test_a_new_ablation_is_one_command_and_leaves_with_another(reproduced: Project) -> None:
    cosearch = (sys.executable, "-m", "cosearch")
    row = ("no_gate", "--like", "cosearch", "reward.gamma=0", "--label", "w/o gate")
    outputs = [f"{kind}/**/*" for kind in (*KINDS, "collected", "identity", "summary", "tables")]
    reproduced.command(
        "dvc", "repro", "-q", "identity"
    )  # another test may have looked under an edit
    before = reproduced.bytes_of(*outputs), reproduced.tracked()
    reproduced.command(*cosearch, "add-row", *row, "--part", "core", "--tables", "ablations")
    done = reproduced.command("dvc", "repro", "tables@core_1").stdout
    table = reproduced.folder / "artifacts/tiny/tables/core_1/ablations_large.md"
    shown = table.read_text("utf-8")
    told = reproduced.command(*cosearch, "remove-row", "no_gate", "--yes").stdout
    reproduced.command("dvc", "repro", "report@core_1")
    new = {f"{kind}@no_gate-0" for kind in KINDS}
    assert ran(done) == {"identity", *new, "collected@core-0", "tables@core_1"}
    assert "| w/o gate |" in shown
    assert all(f"dvc.lock: {title}\n" in told for title in new)
    assert "to make them without it: dvc repro report@core_1" in told
    assert (reproduced.bytes_of(*outputs), reproduced.tracked()) == before
    assert not [*(reproduced.folder / "artifacts").rglob("*no_gate*")]
    assert not [*(reproduced.folder / ".runs").rglob("*no_gate*")]


def test_equal_commits_give_equal_bytes(reproduced: Project, tmp_path: Any) -> None:
    twin = Project.make(tmp_path)
    twin.command("dvc", "repro", "train@cosearch-0", "fixed_ranker@0", "evaluate@rag-0")
    patterns = (
        "data/**/*", "index/*", "encoded/*", "fixed_ranker/**/*", "train/core/seed_0/cosearch/**/*",
        "evaluate/core/seed_0/rag/*",
    )  # fmt: skip
    left, right = twin.bytes_of(*patterns), reproduced.bytes_of(*patterns)
    assert left.keys() == right.keys()
    assert not [name for name in left if left[name] != right[name]]
