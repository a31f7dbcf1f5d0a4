"""The YAML files of the parameters, read as plain values.

Faults are told in one line. A key that stands twice in a block is one of them, since YAML's own
readers take the last of the two and say nothing.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

BESIDE = ("plan", "hub")
"""Files beside params.yaml that change no result: plan.yaml and hub.yaml."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The fast loader where PyYAML was built with it; both read the same."""

Value = TypeVar("Value")
WORDS = {"extra_forbidden": "no such key", "missing": "is missing"}
"""Kinds of pydantic's faults that its own words explain badly, in ours."""


class ConfigError(ValueError):
    """params.yaml is wrong; the message names the key and what is expected."""


def entry_of(block: Mapping[str, Value], place: str, name: str) -> Value:
    """The entry ``name`` of a block. Raises ConfigError that says at which ``place`` it is named,
    and what there is."""
    if name not in block:
        raise ConfigError(f"{place}: no {name!r}; {suggestion(name, block)}")
    return block[name]


def suggestion(name: str, known: Iterable[str]) -> str:
    """What may have been meant by ``name``: the known names that are like it, or else all."""
    every = sorted(known)
    if close := get_close_matches(name, every):
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"there are {', '.join(every)}"


def explain(error: ValidationError) -> str:
    """Every fault of a block as ``path: what is wrong``, in one line."""
    told = []
    for fault in error.errors():
        words = WORDS.get(fault["type"], fault["msg"].removeprefix("Value error, "))
        told.append(": ".join([*filter(None, [".".join(map(str, fault["loc"]))]), words]))
    return "; ".join(told)


def read_blocks(path: Path, text: str | None = None) -> dict[str, Any]:
    """The blocks of params.yaml and of the files beside it, by name. ``text`` stands for what is in
    the file ``path``. Raises ConfigError."""
    raw = _parsed(path, text) if text is not None else _read(path)
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
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                places = f"in line {lines[name]} and in line {line}"
                raise yaml.YAMLError(f"{name!r} stands twice in a block, {places}; keep one")
            lines[name] = line
            _check_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_keys(value)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; run from the project's root")
    return _parsed(path, path.read_text(encoding="utf-8"))


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        raw = load_yaml(text)
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
