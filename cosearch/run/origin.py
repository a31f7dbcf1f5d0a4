"""What a run's state was made by, and how one run differs from another."""

import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_CODE = ("core", "data", "engines", "methods", "train", "artifacts.py")
"""What training stages run of this package; dvc.yaml lists the same."""
_PACKAGES = ("faiss-cpu", "faiss-gpu", "numpy", "polars", "tokenizers", "torch", "transformers")
_ABSENT = "none"


def origin() -> dict[str, str]:
    """Hashes of this package's parts, and versions of Python and the packages that compute."""
    parts = {f"cosearch/{name}": _hash_code(_ROOT / name) for name in _CODE}
    return parts | {"python": platform.python_version()} | versions()


def versions() -> dict[str, str]:
    """Installed versions of the packages that decide a run's bytes."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def differences(old: Mapping[str, Any], new: Mapping[str, Any], above: str = "") -> list[str]:
    """``key: old -> new`` for every value that differs, keys of nested blocks joined by dots."""
    found = []
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key, _ABSENT), new.get(key, _ABSENT)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found += differences(before, after, f"{above}{key}.")
        elif before != after:
            found.append(f"{above}{key}: {_short(before)} -> {_short(after)}")
    return found


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:12]}…"


def _hash_code(path: Path) -> str:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    digest = hashlib.sha256()
    for file in files:
        if file.suffix != ".pyc":
            digest.update(f"{file.relative_to(_ROOT).as_posix()}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
