"""Overrides: values by dotted key, such as ``reward.gamma``, over a block of parameters."""

from collections.abc import Iterator, Mapping
from typing import Any

from cosearch.params.reading import ConfigError, suggestion


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


def apply_overrides(
    values: dict[str, Any], overrides: Mapping[str, Any], above: str = ""
) -> dict[str, Any]:
    """``values`` with dotted keys replaced. ``above`` is what a reader sees before each key.

    Raises ConfigError for a key that ``values`` does not have.
    """
    for key, value in overrides.items():
        *parents, last = key.split(".")
        block: Any = values
        for parent in parents:
            block = block.get(parent) if isinstance(block, dict) else None
        if not isinstance(block, dict) or last not in block:
            known = [name for name, _ in flatten(values, above)]
            raise ConfigError(f"no key {above + key!r}; {suggestion(above + key, known)}")
        block[last] = value
    return values
