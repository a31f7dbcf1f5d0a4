"""Contents have names."""

import hashlib
import os
from pathlib import Path

import pytest

from cosearch.files import hashes
from cosearch.files.hashes import (
    check_hashes,
    hash_file,
    hash_files,
    hash_folder,
    hash_folders,
    known_hash,
)


def test_a_file_has_the_hash_that_sha256sum_gives_it(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert hash_file(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_large_file_is_read_again_when_its_stamps_change_or_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hashes, "LARGE", 3)
    path = Path("index.faiss")
    path.write_bytes(b"abc")
    stamp = path.stat().st_mtime_ns
    recorded = known_hash(path)
    path.write_bytes(b"abd")
    os.utime(path, ns=(stamp, stamp))
    assert known_hash(path) == recorded == hashlib.sha256(b"abc").hexdigest()
    monkeypatch.setenv("COSEARCH_VERIFY", "1")
    assert known_hash(path) == hash_file(path) != recorded
    monkeypatch.delenv("COSEARCH_VERIFY")
    os.utime(path, ns=(stamp, stamp + 1))
    path.write_bytes(b"abe")
    assert known_hash(path) == hash_file(path)
    next(hashes.RECORDED.iterdir()).write_text("{", "utf-8")
    assert known_hash(path) == hash_file(path)


def test_a_folder_is_its_visible_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("1")
    first = hash_folder(tmp_path)
    (tmp_path / "in" / ".new").write_text("half")
    assert hash_folder(tmp_path) == first
    (tmp_path / "in" / "a").write_text("2")
    second = hash_folder(tmp_path)
    (tmp_path / "in" / "a").rename(tmp_path / "in" / "b")
    assert len({first, second, hash_folder(tmp_path)}) == 3


def test_folders_are_told_by_path_and_content(tmp_path: Path) -> None:
    for name, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(text)
    found = hash_folders(str(tmp_path / name) for name in "cabc")
    assert list(found) == [str(tmp_path / name) for name in "abc"]
    one, same, other = found.values()
    assert one == same == hash_folder(tmp_path / "a") != other


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere: no such folder"):
        hash_folder(tmp_path / "nowhere")


def test_a_file_that_changed_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    sums = hash_files(tmp_path)
    assert list(sums) == ["b", "in/a"]
    check_hashes(tmp_path, sums, "make it again")
    (tmp_path / "in" / "a").write_text("7")
    with pytest.raises(ValueError, match="in/a: truncated or altered; make it again"):
        check_hashes(tmp_path, sums, "make it again")
    (tmp_path / "b").unlink()
    with pytest.raises(ValueError, match="b: missing; make it again"):
        check_hashes(tmp_path, sums, "make it again")
