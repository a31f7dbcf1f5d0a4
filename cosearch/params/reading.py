"""The YAML files of the parameters, read as plain values.

Faults are told in one line. A key that stands twice in a block is one of them, since YAML's own
readers take the last of the two and say nothing.
"""

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


def read_blocks(path: Path) -> dict[str, Any]:
    """The blocks of params.yaml and of the files beside it, by name. Raises ConfigError."""
    raw = _read(path)
    for name in BESIDE:
        raw |= _read_beside(path.with_name(f"{name}.yaml"), raw)
    return raw


def load_yaml(text: str) -> Any:
    """The value of a YAML document. Raises YAMLError where a key stands twice in a block, of which
    YAML's own readers take the last."""
    loader = LOADER(text)
    try:
        node = loader.get_single_node()
        _check_keys(node)
        return loader.construct_document(node) if node else None
    finally:
        loader.dispose()


def _check_keys(node: Any) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if (name := str(key.value)) in seen:
                place = f"line {key.start_mark.line + 1}"
                raise yaml.YAMLError(f"{name!r} stands twice in a block, again in {place}")
            seen.add(name)
            _check_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_keys(value)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; run from the project's root")
    try:
        raw = load_yaml(path.read_text(encoding="utf-8"))
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
