"""Where the models of a profile come from that trains none of its own."""

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest

from cosearch.params.settings import Settings, load_settings
from stages.base_models import obtain
from tests.settings import write_params

ROOT = Path(__file__).parents[2]


def unreachable(kind: str, repo: str, revision: str, name: str) -> Path:
    """A hub that cannot be had."""
    raise FileNotFoundError(name)


def copied(profile: str, like: str, root: Path) -> Settings:
    """Settings of a new profile after the pattern of another, as `init` writes them."""

    def add(params: dict[str, Any]) -> None:
        block = copy.deepcopy(params["profiles"][like])
        block["data"] = params["profiles"]["mini"]["data"]
        for name, folder in block["models"].items():
            block["models"][name] = folder and folder.replace(f"/{like}/", f"/{profile}/")
        params["profiles"][profile] = block

    return load_settings(profile, write_params(root, add))


def test_models_of_profile_paper_come_from_the_hub(tmp_path: Path) -> None:
    settings = load_settings("paper", ROOT / "params.yaml")
    with pytest.raises(ValueError, match="cannot be fetched") as caught:
        obtain(settings, tmp_path, unreachable, lambda _: None)
    assert "Qwen/Qwen2.5-7B-Instruct@" in str(caught.value)
    assert "questions" not in str(caught.value) and "\n" not in str(caught.value)
    for folder, model in settings.file.hub["paper"].models.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for name in model.files:
            (tmp_path / folder / name).write_text("{}")
    told: list[str] = []
    obtain(settings, tmp_path, unreachable, told.append)
    assert "models/paper/large: Qwen/Qwen2.5-7B-Instruct" in told
    (tmp_path / "models/paper/large/config.json").write_text("changed")
    with pytest.raises(ValueError, match="remove it and fetch again"):
        obtain(settings, tmp_path, unreachable, lambda _: None)


def test_a_profile_made_like_another_has_its_models(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "models/tiny", tmp_path / "models/tiny")
    (tmp_path / "models/mine").symlink_to("tiny")
    obtain(copied("mine", "tiny", tmp_path), tmp_path, unreachable, lambda _: None)
    (tmp_path / "models/mine").unlink()
    (tmp_path / "models/mine").symlink_to("paper")
    with pytest.raises(ValueError, match="cannot be fetched"):
        obtain(copied("mine", "paper", tmp_path), tmp_path, unreachable, lambda _: None)


def test_a_profile_of_its_own_says_what_is_lacking(tmp_path: Path) -> None:
    settings = copied("mine", "mini", tmp_path)
    with pytest.raises(
        ValueError, match=r"models/mine/encoder: place them there, or say in hub\.mine"
    ):
        obtain(settings, tmp_path, unreachable, lambda _: None)
