"""A project of parameters alone, for commands that only read and edit them."""

import shutil
from pathlib import Path

import pytest

from tests.settings import ROOT


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The parameters of all profiles and the lock, in the current folder."""
    names = ["params.yaml", "plan.yaml", "hub.yaml", "profile.yaml", "rows.yaml", "dvc.lock"]
    for path in [*map(ROOT.joinpath, names), *(ROOT / "profiles").glob("*/*.yaml")]:
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink():
            shutil.copyfile(path, target)
    monkeypatch.chdir(tmp_path)
    return tmp_path
