"""One run computed anew by a script that imports nothing of the product."""

import ast
import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.pipeline import recompute
from tests.pipeline.project import Project

SCRIPT = Path(recompute.__file__)
SCOPE = "core_1"
MAX_LINES = 250
KINDS = {"r_main", "r_rank", "labels", "groups", "advantage", "trained", "f1", "macro", "interval"}


def test_the_script_is_short_and_imports_nothing_of_the_product() -> None:
    tree = ast.parse(SCRIPT.read_text("utf-8"))
    parts = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        name.split(".")[0]
        for node in parts
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
        )
    }
    assert not names & {"cosearch", "stages", "tests"}
    assert len(SCRIPT.read_text("utf-8").splitlines()) <= MAX_LINES


def test_a_run_is_what_its_files_say(reproduced: Project) -> None:
    compared, wrong = recompute.recompute(reproduced.folder / "artifacts/tiny", SCOPE)
    assert wrong == []
    assert compared.keys() >= KINDS


@pytest.mark.parametrize(
    ("file", "column", "change", "found"),
    [
        ("train/core/seed_0/cosearch/rollouts/round_001.parquet", "r_rank", 0.5, "r_rank"),
        ("train/core/seed_0/cosearch/rollouts/round_001.parquet", "advantage", 0.01, "advantage"),
        ("train/core/seed_0/fixed_ranker/rollouts/round_001.parquet", "trained", True, "trained"),
        ("evaluate/core/seed_0/cosearch/predictions.parquet", "f1_bag", 0.01, "f1"),
    ],
)
def test_a_number_that_is_changed_is_found(
    reproduced: Project, tmp_path: Path, file: str, column: str, change: float, found: str
) -> None:
    root = tmp_path / "tiny"
    shutil.copytree(reproduced.folder / "artifacts/tiny", root)
    frame = pl.read_parquet(root / file)
    other = pl.lit(True) if change is True else pl.col(column) + change
    frame.with_columns(other.alias(column)).write_parquet(root / file)
    _, wrong = recompute.recompute(root, SCOPE)
    assert wrong and all(f": {found} " in line for line in wrong)
