"""Nobody meets half a file."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosearch.files.artifacts import move_folder
from cosearch.files.durable import replace_file
from tests.disks import second_disk


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


@pytest.fixture()
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder to publish, on the disk that the test names."""
    with second_disk(tmp_path) as other:
        folder = (other if request.param == "another" else tmp_path) / "made"
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "a").write_text("new")
        yield folder


BOTH = pytest.mark.parametrize("source", ["same", "another"], indirect=True)


def told(folder: Path) -> dict[str, str]:
    """Contents of all files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


@BOTH
@pytest.mark.parametrize("old", [None, "old"])
def test_a_folder_takes_its_place_from_any_disk(
    source: Path, tmp_path: Path, old: str | None
) -> None:
    target = tmp_path / "out" / "row"
    if old is not None:
        target.mkdir(parents=True)
        (target / "b").write_text(old)
    move_folder(source, target)
    assert told(target.parent) == {"row/deep/a": "new"}
    assert not source.exists()


@BOTH
def test_what_stood_there_stays_until_the_new_folder_does(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out" / "row"
    target.mkdir(parents=True)
    (target / "b").write_text("old")
    rename = Path.replace

    def fail(self: Path, to: Path) -> Path:
        if to == target and (tmp_path / "out" / ".row.old").exists() and "old" not in self.name:
            raise OSError("the cable is out")
        return rename(self, to)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match=r"out/row: cannot be written \(the cable is out\)"):
        move_folder(source, target)
    assert told(target) == {"b": "old"} and told(source) == {"deep/a": "new"}


@pytest.mark.parametrize("source", ["another"], indirect=True)
def test_a_copy_that_fails_leaves_both_folders_and_no_part(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "row"
    target.mkdir(parents=True)
    (target / "b").write_text("old")
    (source / "large").write_bytes(b"0" * 2000)
    _, most = limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, most))
    try:
        with pytest.raises(OSError, match="out/row: cannot be written"):
            move_folder(source, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert told(target.parent) == {"row/b": "old"}
    assert told(source).keys() == {"deep/a", "large"}


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    source, real, link = (tmp_path / name for name in ("made", "real", "link"))
    source.mkdir(), real.mkdir(), link.symlink_to(real)
    (source / "a").write_text("new")
    move_folder(source, link)
    assert link.is_symlink() and told(real) == {"a": "new"}
