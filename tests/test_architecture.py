"""The rules that keep the house standing, read off the sources' syntax trees.

Every rule is a function from one module to what is wrong with it. It must find nothing in the
repository and something in a module that breaks it.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAX_FUNCTION_LINES = 50
MAX_FILE_LINES = 300
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
LAYERS = (("flows",), ("stages",), ("cosearch",), ("cosearch", "engines"), ("cosearch", "core"))
"""From the outside in; a module belongs to the last one that it matches."""
ENGINES = LAYERS.index(("cosearch", "engines"))
NO_VARIANT = "base"
"""What a system's `variant` says when its models were never trained; it names no row."""
SETTINGS = "cosearch.params"
LOW_ROOMS = (SETTINGS, "cosearch.files.hashes", "cosearch.files.durable")
"""What engines may import too: parameter blocks, which they take whole, and how files are kept."""
ENTRANCES = (
    "cosearch.engines.models",
    *(f"cosearch.engines.{room}.build" for room in ("judges", "policies", "retrieval")),
)
"""The modules by which the rest of the project reaches the engines."""


@dataclass(frozen=True)
class Module:
    """A source file and its dotted name."""

    name: str
    source: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @property
    def outermost(self) -> str:
        """The source without the bodies of functions and classes."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        kept = [node for node in self.tree.body if not isinstance(node, kinds)]
        return ast.unparse(ast.Module(kept, []))

    def imports(self) -> Iterator[str]:
        """Dotted names of all imported modules, wherever in the file they are imported."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                package = self.name.split(".")[: -node.level] if node.level else []
                base = ".".join([*package, *filter(None, [node.module])])
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)


def in_package(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def top(name: str) -> str:
    return name.split(".", 1)[0]


def layer(name: str) -> int | None:
    """How far inside a module lies, or None if it is not ours."""
    parts = tuple(name.split("."))
    depths = [depth for depth, path in enumerate(LAYERS) if parts[: len(path)] == path]
    return max(depths, default=None)


def core_stands_alone(module: Module) -> list[str]:
    """core imports the standard library and itself only."""
    if not in_package(module.name, "cosearch.core"):
        return []
    return [
        name
        for name in module.imports()
        if top(name) not in sys.stdlib_module_names and not in_package(name, "cosearch.core")
    ]


def only_build_knows_engines(module: Module) -> list[str]:
    """Nobody imports an engine but the ``engines/*/build.py`` modules and other engines."""
    if in_package(module.name, "cosearch.engines"):
        return []
    return [
        name
        for name in module.imports()
        if name.startswith("cosearch.engines.")
        and not any(in_package(name, entrance) for entrance in ENTRANCES)
    ]


def build_modules_stay_light(module: Module) -> list[str]:
    """A ``build`` module imports an engine, or what engines need, inside its functions only."""
    if module.name not in ENTRANCES:
        return []
    light = (*ENTRANCES, SETTINGS, "cosearch.core")
    return [
        name
        for name in Module(module.name, module.outermost).imports()
        if top(name) not in sys.stdlib_module_names
        and not any(in_package(name, package) for package in light)
    ]


def stages_stand_apart(module: Module) -> list[str]:
    """Stages never import each other."""
    if not in_package(module.name, "stages"):
        return []
    return [name for name in module.imports() if in_package(name, "stages")]


def flows_only_watch(module: Module) -> list[str]:
    """Flows import Prefect, the standard library and each other only."""
    if not in_package(module.name, "flows"):
        return []
    allowed = {"prefect", "flows", *sys.stdlib_module_names}
    return [name for name in module.imports() if top(name) not in allowed]


def prefect_stays_outside(module: Module) -> list[str]:
    """Prefect is imported in flows and in its monitor only."""
    if in_package(module.name, "flows") or module.name == "cosearch.run.monitors.prefect":
        return []
    return [name for name in module.imports() if top(name) == "prefect"]


def calls_go_inwards(module: Module) -> list[str]:
    """flows -> stages -> cosearch.* -> engines -> core, never back."""
    own = layer(module.name)
    assert own is not None, module.name
    return [
        name
        for name in module.imports()
        if (other := layer(name)) is not None
        and other < own
        and not (own == ENGINES and any(in_package(name, room) for room in LOW_ROOMS))
        and name != "cosearch"
    ]


def names_say_something(module: Module) -> list[str]:
    """No module is called after nothing in particular."""
    return sorted(set(module.name.split(".")) & NAMES_THAT_SAY_NOTHING)


def functions_are_short(module: Module) -> list[str]:
    """A function has at most 50 lines."""
    return [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]


def files_are_short(module: Module) -> list[str]:
    """A file has at most 300 lines."""
    count = len(module.source.splitlines())
    return [f"{count} lines"] if count > MAX_FILE_LINES else []


def rows_are_data(module: Module) -> list[str]:
    """No code asks which variant or system it serves."""
    return [
        f"line {node.lineno}"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Compare | ast.Match) and _asks_for_a_row(node)
    ]


def _asks_for_a_row(node: ast.Compare | ast.Match) -> bool:
    if isinstance(node, ast.Match):
        return _names_a_row(node.subject) and any(
            isinstance(inner, ast.MatchValue) for inner in ast.walk(node)
        )
    sides = [node.left, *node.comparators]
    holds_text = any(
        isinstance(inner, ast.Constant)
        and isinstance(inner.value, str)
        and inner.value != NO_VARIANT
        for side in sides
        for inner in ast.walk(side)
        if not _names_a_row(side)
    )
    return holds_text and any(_names_a_row(side) for side in sides)


def _names_a_row(node: ast.expr) -> bool:
    """Whether an expression is called variant or system, or is a name or id of one."""
    match node:
        case ast.Name(id=name):
            words = [name]
        case ast.Attribute(attr=name, value=ast.Name(id=owner)) if name in ("name", "id"):
            words = [owner]
        case ast.Attribute(attr=name):
            words = [name]
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            words = [name]
        case _:
            words = []
    return any(set(word.split("_")) & {"variant", "system"} for word in words)


def docstrings_reach_no_output(module: Module) -> list[str]:
    """A docstring is shown as help alone, since identities leave docstrings out."""
    nodes = list(ast.walk(module.tree))
    shown = {id(doc) for node in nodes if isinstance(node, ast.Call) for doc in _helps(node)}
    found = [
        f"line {node.lineno}"
        for node in nodes
        if (isinstance(node, ast.Name) and node.id == "__doc__" and id(node) not in shown)
        or (isinstance(node, ast.Attribute) and node.attr in ("__doc__", "getdoc"))
        or (isinstance(node, ast.Constant) and node.value == "__doc__")
    ]
    readers = {"pydoc", "inspect.getdoc"}
    return found + [name for name in module.imports() if name in readers]


def _helps(call: ast.Call) -> list[ast.expr]:
    """Arguments of a call that are shown as help."""
    match call:
        case ast.Call(func=ast.Name(id="run_stage"), args=[_, doc, *_]):
            return [doc]
        case ast.Call(func=ast.Attribute(attr="ArgumentParser") | ast.Name(id="ArgumentParser")):
            return [word.value for word in call.keywords if word.arg == "description"]
    return []


RULES: list[Callable[[Module], list[str]]] = [
    core_stands_alone,
    only_build_knows_engines,
    build_modules_stay_light,
    stages_stand_apart,
    flows_only_watch,
    prefect_stays_outside,
    calls_go_inwards,
    names_say_something,
    functions_are_short,
    files_are_short,
    rows_are_data,
    docstrings_reach_no_output,
]


def short_name(value: object) -> str:
    """A name that is the same in every process, unlike a function's own text."""
    return getattr(value, "__name__", None) or str(value).splitlines()[0][:40] if value else "empty"


def modules() -> list[Module]:
    """Every module of the product."""
    found = []
    for package in ("cosearch", "stages", "flows"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found.append(Module(name.removesuffix(".__init__"), path.read_text("utf-8")))
    return found


def test_the_product_is_found() -> None:
    names = {module.name for module in modules()}
    assert {
        "cosearch.core.rollout",
        "cosearch.engines.policies.codec_hf",
        "stages",
        "flows",
    } <= names


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rule_holds_everywhere(rule: Callable[[Module], list[str]]) -> None:
    broken = {module.name: found for module in modules() if (found := rule(module))}
    assert not broken, rule.__doc__


LAZY_IMPORT = "def f():\n    from cosearch.engines.judges.endpoint import EndpointJudge"
LONG_FUNCTION = "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (core_stands_alone, "cosearch.core.text", "import numpy"),
        (
            core_stands_alone,
            "cosearch.core.text",
            "def f():\n    from cosearch.params.settings import load_settings",
        ),
        (core_stands_alone, "cosearch.core.text", "from ..engines import models"),
        (
            only_build_knows_engines,
            "cosearch.train.loop",
            "import cosearch.engines.policies.codec_hf",
        ),
        (only_build_knows_engines, "stages.train", "from cosearch.engines import codec_hf"),
        (
            only_build_knows_engines,
            "stages.train",
            "from cosearch.engines.policies.codec_hf import HfCodec",
        ),
        (
            build_modules_stay_light,
            "cosearch.engines.judges.build",
            "from cosearch.engines.judges.endpoint import EndpointJudge",
        ),
        (build_modules_stay_light, "cosearch.engines.policies.build", "import torch"),
        (stages_stand_apart, "stages.train", "from stages import index"),
        (stages_stand_apart, "stages.train", "from . import index"),
        (flows_only_watch, "flows.serve", "from cosearch import artifacts"),
        (flows_only_watch, "flows.serve", "import dvc.repo"),
        (prefect_stays_outside, "cosearch.train.loop", "def f():\n    from prefect import task"),
        (calls_go_inwards, "cosearch.core.text", "import stages.train"),
        (calls_go_inwards, "cosearch.core.text", "from cosearch.engines import models"),
        (
            calls_go_inwards,
            "cosearch.engines.retrieval.encoder",
            "from cosearch.data import corpus",
        ),
        (calls_go_inwards, "cosearch.data.corpus", "from stages import data"),
        (calls_go_inwards, "stages.data", "from flows import graph"),
        (names_say_something, "cosearch.train.utils", ""),
        (names_say_something, "cosearch.helpers.text", ""),
        (functions_are_short, "cosearch.x", LONG_FUNCTION),
        (
            functions_are_short,
            "cosearch.x",
            "class A:\n    async "
            + LONG_FUNCTION[:5]
            + "(self):\n"
            + "        x = 1\n" * MAX_FUNCTION_LINES,
        ),
        (files_are_short, "cosearch.x", "x = 1\n" * (MAX_FILE_LINES + 1)),
        (rows_are_data, "cosearch.x", "if variant == 'cosearch': pass"),
        (rows_are_data, "cosearch.x", "y = item.variant in ('cosearch', 'fixed_ranker')"),
        (rows_are_data, "cosearch.x", "y = 'oracle' != system.name"),
        (rows_are_data, "cosearch.x", "y = row['system'] == 'oracle'"),
        (rows_are_data, "cosearch.x", "match variant_name:\n    case 'cosearch': pass"),
        (docstrings_reach_no_output, "cosearch.x", "print(__doc__)"),
        (docstrings_reach_no_output, "cosearch.x", "print(main.__doc__)"),
        (docstrings_reach_no_output, "cosearch.x", "print(getattr(main, '__doc__'))"),
        (docstrings_reach_no_output, "cosearch.x", "import inspect\ninspect.getdoc(main)"),
        (docstrings_reach_no_output, "cosearch.x", "from inspect import getdoc"),
        (docstrings_reach_no_output, "cosearch.x", "def f():\n    import pydoc"),
        (docstrings_reach_no_output, "stages.x", "run_stage(__doc__, 'x', page)"),
        (docstrings_reach_no_output, "stages.x", "run_stage('x', 'y', page, __doc__)"),
        (docstrings_reach_no_output, "cosearch.x", "ArgumentParser(prog=__doc__)"),
    ],
    ids=short_name,
)
def test_the_rule_can_be_broken(
    rule: Callable[[Module], list[str]], name: str, source: str
) -> None:
    assert rule(Module(name, source))


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (
            only_build_knows_engines,
            "stages.train",
            "from cosearch.engines.policies.build import build_codec",
        ),
        (
            only_build_knows_engines,
            "cosearch.engines.policies.build",
            "import cosearch.engines.policies.codec_hf",
        ),
        (flows_only_watch, "flows.reproduce", "import subprocess\nfrom flows.graph import stages"),
        (prefect_stays_outside, "cosearch.run.monitors.prefect", "import prefect"),
        (
            only_build_knows_engines,
            "stages.train",
            "from cosearch.engines.models import set_threads",
        ),
        (build_modules_stay_light, "cosearch.engines.judges.build", LAZY_IMPORT),
        (
            build_modules_stay_light,
            "cosearch.engines.judges.build",
            "from cosearch.engines.policies.build import build_codec",
        ),
        (
            calls_go_inwards,
            "cosearch.engines.policies.build",
            "from cosearch.params.blocks import Train",
        ),
        (calls_go_inwards, "cosearch.train.loop", "from cosearch.data import corpus"),
        (functions_are_short, "cosearch.x", LONG_FUNCTION.removesuffix("    x = 1\n")),
        (rows_are_data, "cosearch.x", "y = system is None or variant in variants"),
        (rows_are_data, "cosearch.x", "y = role == 'agent'"),
        (rows_are_data, "cosearch.x", "y = system.variant != 'base'"),
        (docstrings_reach_no_output, "stages.x", "run_stage('x', __doc__, page, 'row')"),
        (docstrings_reach_no_output, "x", "argparse.ArgumentParser(description=__doc__)"),
    ],
    ids=short_name,
)
def test_the_rule_allows_what_it_should(
    rule: Callable[[Module], list[str]], name: str, source: str
) -> None:
    assert rule(Module(name, source)) == []
