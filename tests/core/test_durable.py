"""Nobody meets half a file."""

from pathlib import Path

import pytest

from cosearch.files.durable import replace_file


def test_a_file_is_written_with_the_folders_above_it(tmp_path: Path) -> None:
    path = tmp_path / "in" / "a"
    replace_file(path, lambda aside: aside.write_text("1"))
    replace_file(path, lambda aside: aside.write_text("2"))
    assert [(p.name, p.read_text()) for p in path.parent.iterdir()] == [("a", "2")]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def fail(aside: Path) -> None:
        aside.write_text("ha")
        raise RuntimeError("full")

    with pytest.raises(RuntimeError, match="full"):
        replace_file(path, fail)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "old")]
