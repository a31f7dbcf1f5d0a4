"""What a run's state was made by, and how one run differs from another, in words."""

import importlib.metadata
import platform
import re
from collections.abc import Iterable, Mapping
from typing import Any

DECIDING = ("faiss-cpu", "faiss-gpu", "numpy", "polars", "tokenizers", "torch", "transformers")
"""Packages that decide a run's bytes."""
_ABSENT = "none"
_HASH = re.compile(r"[0-9a-f]{16,}")
_SHORT = re.compile(r"^(settings\.)?(method\.)?(code\.|models\.|inputs\.)?(cosearch/)?")
"""What stands before the name by which a reader knows a value."""


def origin(code: Mapping[str, str]) -> dict[str, str]:
    """Fingerprints of the code of a stage by file, and versions of what computes under it."""
    return {**code, "python": platform.python_version()} | versions(DECIDING)


def versions(names: Iterable[str]) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def differences(old: Mapping[str, Any], new: Mapping[str, Any], above: str = "") -> list[str]:
    """``reward.gamma 0.5 -> 0.3`` for every value that differs, keys of nested blocks joined by
    dots; ``core/grouping.py changed`` where the values are hashes."""
    found = []
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key, _ABSENT), new.get(key, _ABSENT)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found += differences(before, after, f"{above}{key}.")
        elif before != after:
            found.append(_words(_SHORT.sub("", f"{above}{key}"), before, after))
    return found


def _words(name: str, before: Any, after: Any) -> str:
    if _HASH.fullmatch(str(before)) and _HASH.fullmatch(str(after)):
        return f"{name} changed"
    return f"{name} {_clip(before)} -> {_clip(after)}"


def _clip(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:12]}…"
