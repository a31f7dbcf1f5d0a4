"""YAML files edited as text: an entry of a block comes or goes, and no other line changes.

DVC writes params.yaml and its locks in one form. A new entry is written in that form too, so that a
later edit by DVC changes only the key that it sets.
"""

import re
from collections.abc import Mapping
from typing import Any

import yaml
from dvc.utils.serialize import dumps_yaml, loads_yaml
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from cosearch.params.reading import LOADER, load_yaml

_EXPONENT = re.compile(r"([-+]?\d+)(\.\d+)?[eE]([-+]?)(\d+)")
"""A float with an exponent: mantissa, fraction, and sign and digits of the exponent."""


def add_entry(text: str, block: str, name: str, entry: Mapping[str, Any]) -> str:
    """``text`` with ``name: entry`` behind the last entry of the top-level ``block``. Mappings and
    lists inside the entry stand on one line each."""
    value = CommentedMap({key: _on_one_line(one) for key, one in entry.items()})
    written: str = dumps_yaml({block: {name: value}})
    lines = text.splitlines(keepends=True)
    behind = _last_line(_block(text, block)) + 1
    if not lines[behind - 1].endswith("\n"):
        lines[behind - 1] += "\n"
    return "".join([*lines[:behind], written.split("\n", 1)[1], *lines[behind:]])


def remove_entry(text: str, block: str, name: str) -> str:
    """``text`` without the entry ``name`` of the top-level ``block``, and without the comments
    inside the entry."""
    first, last = entry_lines(text, block, name)
    lines = text.splitlines(keepends=True)
    return "".join([*lines[: first - 1], *lines[last:]])


def entry_lines(text: str, block: str, name: str) -> tuple[int, int]:
    """Numbers, from 1, of the first and the last line of an entry."""
    key, value = next(pair for pair in _block(text, block).value if pair[0].value == name)
    return key.start_mark.line + 1, _last_line(value) + 1


def read_value(word: str) -> Any:
    """The value of a word of a command line, as YAML reads it. Raises YAMLError.

    YAML's readers disagree about ``1e-5``, so it is understood, and later written, as ``1.0e-5``.
    """
    if number := _EXPONENT.fullmatch(word):
        whole, fraction, sign, digits = number.groups()
        return loads_yaml(f"{whole}{fraction or '.0'}e{sign or '+'}{digits}", typ="rt")
    return load_yaml(word)


def _block(text: str, name: str) -> yaml.MappingNode:
    root = yaml.compose(text, LOADER)
    assert isinstance(root, yaml.MappingNode)
    found: yaml.MappingNode = next(value for key, value in root.value if key.value == name)
    return found


def _last_line(node: yaml.Node) -> int:
    """The last line of a value, from 0; comments behind it are not part of it."""
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    end = node.end_mark
    ends_before = end.column == 0 and end.line > node.start_mark.line  # a text of several lines
    return int(end.line) - ends_before


def _on_one_line(value: Any) -> Any:
    if not isinstance(value, dict | list):
        return value
    written = CommentedMap(value) if isinstance(value, dict) else CommentedSeq(value)
    written.fa.set_flow_style()
    return written
