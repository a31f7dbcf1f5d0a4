"""Overrides: values by dotted key, such as ``reward.gamma``, over a block of parameters."""

from collections.abc import Iterator, Mapping
from typing import Any

from cosearch.params.reading import ConfigError


def flatten(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of every value in nested mappings."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def overrides_under(overrides: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The overrides below ``name``, relative to it."""
    prefix = f"{name}."
    return {key[len(prefix) :]: v for key, v in overrides.items() if key.startswith(prefix)}


def apply_overrides(values: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` with dotted keys replaced. A key that does not exist yet is an error."""
    for key, value in overrides.items():
        *parents, last = key.split(".")
        block = values
        for parent in parents:
            block = block.get(parent, {})
        if last not in block:
            raise ConfigError(f"unknown parameter {key!r}; known here: {', '.join(sorted(block))}")
        block[last] = value
    return values
