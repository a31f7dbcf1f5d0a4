"""What dvc.yaml declares is what stages import and ask for."""

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pipeline.project import ROOT, Project

CARRIERS = (
    "stage",
    "config",
    "schema",
    "data_schema",
    "engine_schema",
    "plan_schema",
    "hub_schema",
    "rows",
    "presets",
    "progress",
    "lease",
)
EXEMPT = {f"cosearch/{name}.py" for name in CARRIERS}
"""They only carry values that ``params`` tracks, and show progress (docs/decisions.md)."""
WATCHED = {
    ROOT / "cosearch/run/stage.py": {
        ROOT / "cosearch/engines/policies/build.py",
        ROOT / "cosearch/run/monitors/choice.py",
    }
}
"""Edges that lead to the monitors and to a job's other ranks; neither changes an output."""
STAGES = {
    name: block.get("do", block)
    for name, block in yaml.safe_load((ROOT / "dvc.yaml").read_text("utf-8"))["stages"].items()
}


def module_file(name: str) -> Path | None:
    path = ROOT.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def imported(path: Path) -> frozenset[Path]:
    """Files of this project that a file imports anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    files = (module_file(name) for name in names if name.startswith("cosearch"))
    return frozenset(file for file in files if file)


def closure(path: Path) -> set[str]:
    """Everything a file needs of this project, without package markers."""
    seen: set[Path] = set()
    waiting = {path}
    while waiting:
        current = waiting.pop()
        seen.add(current)
        waiting |= imported(current) - seen - WATCHED.get(current, set())
    names = {str(one.relative_to(ROOT)) for one in seen - {path}}
    return {name for name in names if not name.endswith("__init__.py")} - EXEMPT


@pytest.mark.parametrize("stage", sorted(set(STAGES) - {"base_models"}))
def test_code_dependencies_are_what_is_imported(stage: str) -> None:
    needed = closure(ROOT / "stages" / f"{stage}.py")
    declared = {dep for dep in STAGES[stage]["deps"] if dep.startswith("cosearch")}
    uncovered = {
        name
        for name in needed
        if not any(name == dep or name.startswith(f"{dep}/") for dep in declared)
    }
    idle = {
        dep
        for dep in declared
        if not any(name == dep or name.startswith(f"{dep}/") for name in needed)
    }
    assert not uncovered
    assert not idle


def test_parameters_read_are_the_ones_declared(reproduced: Project) -> None:
    """No row reads what is not declared, and what is declared some row reads: a gate without a
    ranker needs no index."""
    records = sorted((reproduced.folder / "artifacts/tiny/timing").glob("*.json"))
    assert len(records) > 15
    asked: dict[str, set[str]] = {}
    for path in records:
        record: dict[str, Any] = json.loads(path.read_text())
        name, _, instance = record["stage"].partition("@")
        declared = {
            text.replace("${profile}", "tiny")
            .replace("${key}", instance)
            .replace("${item.variant}", instance.rsplit("-", 1)[0])
            .replace("${item.system}", instance.rsplit("-", 1)[0]): text
            for text in STAGES[name]["params"]
        }
        read = set(record["parameters_read"])
        assert read <= set(declared), record["stage"]
        asked.setdefault(name, set()).update(declared[text] for text in read)
    assert asked == {name: set(STAGES[name]["params"]) for name in asked}
