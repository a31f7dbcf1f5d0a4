"""What the documents say is what the project holds."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from cosearch.__main__ import MARKS, readme_block, write_readme

ROOT = Path(__file__).parents[1]


def test_the_readme_shows_the_tables_that_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = (ROOT / "README.md").read_text("utf-8").split(MARKS[0])[1].split(MARKS[1])[0]
    assert shown.strip() == readme_block("tiny", "all_seed_0").strip()


def test_a_readme_without_marks_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    path = tmp_path / "README.md"
    path.write_text("nothing to replace")
    with pytest.raises(ValueError, match="results: begin"):
        write_readme("tiny", "all_seed_0", path)
    assert path.read_text() == "nothing to replace"


def test_every_function_and_test_of_the_paper_map_exists() -> None:
    text = (ROOT / "docs/paper.md").read_text("utf-8")
    tests = set(re.findall(r"`(tests/[\w/]+\.py)`", text))
    assert tests and not [name for name in tests if not (ROOT / name).is_file()]
    names = set(re.findall(r"`((?:core|train|engines|evaluation)\.\w+\.\w+)`", text))
    assert len(names) > 15
    for name in names:
        module, _, attribute = f"cosearch.{name}".rpartition(".")
        assert hasattr(import_module(module), attribute), name


def test_every_make_target_of_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    wanted = set(re.findall(r"`?make ([a-z][a-z-]*)", (ROOT / "README.md").read_text("utf-8")))
    assert {"repro", "test", "mini", "check", "report"} <= wanted
    assert not [name for name in wanted if not re.search(rf"^{name}:", makefile, re.MULTILINE)]


def test_no_document_names_a_path_of_a_machine() -> None:
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        assert not re.search(r"(?<![\w.])/(home|root|tmp|work|opt|usr)/", path.read_text("utf-8"))
