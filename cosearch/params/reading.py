"""params.yaml and the two files beside it, read as plain values."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

BESIDE = ("plan", "hub")
"""Files beside params.yaml that change no result: plan.yaml and hub.yaml."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The fast loader where PyYAML was built with it; both read the same."""


class ConfigError(ValueError):
    """params.yaml is wrong; the message names the key and what is expected."""


def read_parameters(path: Path) -> dict[str, Any]:
    """params.yaml at ``path`` with the blocks of plan.yaml and hub.yaml beside it.

    Raises ConfigError for a file that is missing, is not YAML, or holds other blocks.
    """
    raw = _read(path)
    for name in BESIDE:
        raw |= _read_beside(path.with_name(f"{name}.yaml"), raw)
    return raw


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; run from the project's root")
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: {type(raw).__name__}, not a mapping")
    return raw


def _read_beside(path: Path, above: Mapping[str, Any]) -> dict[str, Any]:
    """A file that holds the one block that it is named after, which params.yaml must not hold."""
    raw = _read(path)
    if strange := sorted(raw.keys() ^ {path.stem}):
        raise ConfigError(f"{path}: holds the block {path.stem!r} and no other, not {strange[0]!r}")
    if path.stem in above:
        raise ConfigError(f"{path}: params.yaml has a block {path.stem!r} too")
    return raw
