"""Faults of input end a stage with one line that names file, row or key, before any work."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.project import Project


@pytest.fixture(scope="module")
def broken(reproduced: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy to break; each test mends what it broke."""
    folder = tmp_path_factory.mktemp("broken")
    shutil.copytree(reproduced.folder, folder, dirs_exist_ok=True, symlinks=True)
    return Project(folder)


def complaint(project: Project, *words: str) -> str:
    """The one line a stage ends with."""
    done = project.stage(*words, check=False)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1
    assert lines[-1].startswith(f"error: {words[0]}: ")
    assert "Traceback" not in done.stderr
    return lines[-1]


def cut(path: Path) -> Callable[[], object]:
    """Truncate a file; returns how to mend it."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return lambda: path.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["index/index.faiss", "data/corpus/passages.arrow", "fixed_ranker_data/lists.parquet"]
)
def test_a_truncated_file_is_named(broken: Project, name: str) -> None:
    mend = cut(broken.folder / "artifacts/tiny" / name)
    try:
        line = complaint(broken, "fixed_ranker", "--seed", "0")
    finally:
        mend()
    assert Path(name).parent.name in line


def test_an_index_of_another_corpus_is_refused(broken: Project) -> None:
    manifest = broken.folder / "artifacts/tiny/data/corpus/manifest.json"
    content = manifest.read_text()
    sha256 = content.split('"sha256": "')[1][:64]
    manifest.write_text(content.replace(sha256, "0" * 64))
    try:
        line = complaint(broken, "evaluate", "--row", "rag-0")
    finally:
        manifest.write_text(content)
    assert "index was built for corpus" in line and sha256 in line and "0" * 64 in line


def test_a_missing_model_is_named(broken: Project) -> None:
    def elsewhere(params: dict[str, Any]) -> None:
        params["profiles"]["tiny"]["models"]["agent"] = "models/nowhere"

    def back(params: dict[str, Any]) -> None:
        params["profiles"]["tiny"]["models"]["agent"] = "models/tiny/agent"

    broken.edit(elsewhere)
    try:
        line = complaint(broken, "evaluate", "--row", "direct-0")
    finally:
        broken.edit(back)
    assert "no record of models/nowhere" in line and "`python -m cosearch models" in line


def test_a_model_that_is_not_the_recorded_one_is_named(broken: Project) -> None:
    weights = broken.folder / "models/tiny/agent/model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    try:
        line = complaint(broken, "evaluate", "--row", "direct-0")
    finally:
        weights.write_bytes(content)
    assert "models/tiny/agent: its hash is" in line and "its record says" in line


def test_a_question_without_golds_is_named(broken: Project, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(
        '{"question": "who", "answer": ["she"]}\n{"question": "where", "answer": []}\n'
    )
    (tmp_path / "c.jsonl").write_text('{"id": "0", "contents": "Oslo\\ncapital of Norway"}\n')

    def from_files(params: dict[str, Any]) -> None:
        data = params["profiles"]["tiny"]["data"]
        data |= {"source": "files", "folder": str(tmp_path), "corpus": "c.jsonl"}
        source = {"path": "q.jsonl", "split": None, "source": "made up", "format": None}
        data["sets"] = {
            "nq": {"kind": "single", "train": 0, "dev": 0, "test": None, "files": {"test": source}}
        }

    original = (broken.folder / "params.yaml").read_text()
    broken.edit(from_files)
    try:
        line = complaint(broken, "data")
    finally:
        (broken.folder / "params.yaml").write_text(original)
    assert "q.jsonl: row 2" in line


@pytest.mark.parametrize("stage", ["train", "evaluate", "report"])
def test_help_tells_what_a_stage_does(broken: Project, stage: str) -> None:
    done = broken.stage(stage, "--help")
    assert f"python -m stages.{stage}" in done.stdout and "--profile" in done.stdout
