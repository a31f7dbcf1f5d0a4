"""One word per concept, few parameters, short functions, and a room for every product file."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import median

import pytest

from tests.test_architecture import ROOT, Module, modules

MAX_PARAMETERS = 8
MAX_MEDIAN_LINES = 8
MAX_TOUR_LINES = 500
EVERY_PAGE = {"main", "page"}
"""What each stage's page and each command is called."""
LINK = re.compile(r"\]\(\.\./([\w/]+\.py)#L(\d+)\)")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_names(module: Module) -> Iterator[str]:
    """Classes, functions and type aliases that a module defines for others."""
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef | Function):
            names = [node.name]
        elif isinstance(node, ast.Assign):  # an alias is called like a class
            names = [one.id for one in node.targets if isinstance(one, ast.Name)]
            names = [name for name in names if name[0].isupper() and not name.isupper()]
        else:
            continue
        yield from (name for name in names if not name.startswith("_"))


def homes(found: list[Module]) -> dict[str, list[str]]:
    """Name -> the modules that define it, for names that more than one defines."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in found:
        for name in public_names(module):
            places[name].append(module.name)
    return {
        name: where for name, where in places.items() if len(where) > 1 and name not in EVERY_PAGE
    }


def functions(module: Module) -> Iterator[Function]:
    return (node for node in ast.walk(module.tree) if isinstance(node, Function))


def parameters(function: Function) -> int:
    """How many parameters a caller has to know."""
    all_ = function.args
    named = chain(all_.posonlyargs, all_.args, all_.kwonlyargs)
    return len([one for one in named if one.arg not in ("self", "cls")])


def length(node: ast.AST) -> int:
    assert isinstance(node, ast.stmt) and node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_no_name_has_two_meanings() -> None:
    assert not homes(modules())


def test_a_second_meaning_is_found() -> None:
    pair = [Module("cosearch.a", "class Row: pass"), Module("cosearch.b", "Row = dict[str, int]")]
    assert homes(pair) == {"Row": ["cosearch.a", "cosearch.b"]}
    assert not homes([Module("stages.a", "def main(): pass"), Module("stages.b", "_X = int")])


def test_functions_have_few_parameters() -> None:
    found = {
        f"{module.name}.{function.name}": parameters(function)
        for module in modules()
        for function in functions(module)
    }
    assert len(found) > 1000
    assert not {name: count for name, count in found.items() if count > MAX_PARAMETERS}


def test_the_usual_function_is_short() -> None:
    assert median(length(f) for one in modules() for f in functions(one)) <= MAX_MEDIAN_LINES


def test_every_file_of_the_product_has_a_room() -> None:
    loose = {path.name for path in (ROOT / "cosearch").glob("*.py")}
    assert loose == {"__init__.py", "__main__.py"}


def linked(path: Path, line: int) -> ast.stmt:
    """The function, class or value that begins at a line."""
    tree = ast.parse(path.read_text("utf-8"))
    return next(n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno == line)


def test_the_tour_is_short() -> None:
    links = set(LINK.findall((ROOT / "docs/tour.md").read_text("utf-8")))
    assert len(links) > 20
    lines = {(file, line): length(linked(ROOT / file, int(line))) for file, line in links}
    assert sum(lines.values()) <= MAX_TOUR_LINES, lines


@pytest.mark.parametrize("count", [MAX_PARAMETERS, MAX_PARAMETERS + 1])
def test_parameters_are_counted(count: int) -> None:
    names = ", ".join(f"p{number}" for number in range(count - 1))
    (found,) = functions(Module("cosearch.x", f"def f(self, {names}, *, last): pass"))
    assert parameters(found) == count
