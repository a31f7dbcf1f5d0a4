"""The code that a stage runs, as fingerprints that comments, docstrings and layout leave alone.

A fingerprint is taken over the syntax tree, so that only a change of what the code does counts. It
is the same under Python 3.11 and 3.12. Package data, such as prompts, is hashed as bytes.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from cosearch.params.overrides import flatten

ROOT = Path(__file__).parents[2]
LENGTH = 16
"""Hex digits of a fingerprint in an identity; a change must be seen, not proved."""
APART = ("cosearch.run", "cosearch.params")
"""Packages that change no result by themselves: one carries and watches a stage, the other reads
values that the identity holds resolved."""

Choice = tuple[str, str]
"""Patterns of a setting's dotted key and of the value that it has where the module is used."""
_POLICIES, _JUDGES = "cosearch.engines.policies", "cosearch.engines.judges"
_RETRIEVAL = "cosearch.engines.retrieval"
_HF: tuple[Choice, ...] = (("*.engine", "hf"), ("judge.kind", "likelihood"))
_VLLM: tuple[Choice, ...] = (("*.engine", "vllm"),)
_DEEPSPEED: tuple[Choice, ...] = (("train.engine", "deepspeed"),)
_TRAINING: tuple[Choice, ...] = (("train.engine", "*"),)
_INDEX: tuple[Choice, ...] = (("index.kind", "*"),)
CHOSEN: Mapping[str, tuple[Choice, ...]] = {
    f"{_POLICIES}.generator_hf": _HF,
    f"{_POLICIES}.generator_vllm": _VLLM,
    f"{_POLICIES}.engine_vllm": _VLLM,
    f"{_POLICIES}.placement_vllm": _VLLM,
    f"{_POLICIES}.transfer_vllm": _VLLM,
    f"{_POLICIES}.ranker_cross_encoder": (("*.ranker", "cross_encoder"),),
    f"{_POLICIES}.trainer_torch": (("train.engine", "torch"),),
    f"{_POLICIES}.trainer_deepspeed": _DEEPSPEED,
    f"{_POLICIES}.ranks": _DEEPSPEED,
    f"{_POLICIES}.zero": _DEEPSPEED,
    f"{_POLICIES}.loss": _TRAINING,
    f"{_POLICIES}.step": _TRAINING,
    f"{_RETRIEVAL}.index_faiss": _INDEX,
    f"{_RETRIEVAL}.index_kinds": _INDEX,
    f"{_RETRIEVAL}.index_need": _INDEX,
    f"{_RETRIEVAL}.retriever_faiss": _INDEX,
    f"{_JUDGES}.likelihood": (("judge.kind", "likelihood"),),
    f"{_JUDGES}.endpoint": (("judge.kind", "endpoint"),),
}
"""Modules that are imported only where they are used -> the settings that name them. One of them
counts for a row only if the row's settings name it."""
DATA: Mapping[str, str] = {
    "cosearch.core.prompts": "cosearch/core/templates",
    "cosearch.paper.published": "cosearch/paper/expected",
    "cosearch.report.curves": "cosearch/report/page",
    "cosearch.report.templates": "cosearch/report/page",
}
"""Modules that read package data -> the folder of it."""
TEMPLATES = "cosearch/core/templates"
"""Of this folder, a row reads the sets that its settings name."""


@dataclass(frozen=True)
class Source:
    """A module: its fingerprint, what it imports when it is loaded, and what its functions
    import."""

    file: str
    fingerprint: str
    loaded: frozenset[str]
    lazy: frozenset[str]


def code_of(module: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """File -> fingerprint of all that ``module`` runs under ``settings``, package data included."""
    flat = dict(flatten(settings))
    found: dict[str, str] = {}
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen or name.startswith(APART):
            continue
        seen.add(name)
        source = read_source(name)
        if source.fingerprint != EMPTY:
            found[source.file] = source.fingerprint
        found |= _data(DATA.get(name), flat)
        waiting += source.loaded
        waiting += (lazy for lazy in source.lazy if is_chosen(lazy, flat))
    return dict(sorted(found.items()))


def is_chosen(module: str, flat: Mapping[str, Any]) -> bool:
    """Whether settings, by dotted key, name a module; one that ``CHOSEN`` lacks always counts."""
    choices = CHOSEN.get(module)
    return choices is None or any(
        fnmatchcase(key, pattern) and fnmatchcase(str(value), wanted)
        for pattern, wanted in choices
        for key, value in flat.items()
    )


@cache
def read_source(name: str) -> Source:
    """The module ``name`` of this project."""
    path = _file(name)
    if path is None:
        raise ValueError(f"{name}: no such module in {ROOT}")
    tree = ast.parse(path.read_bytes())
    loaded, lazy = set(_imports(tree, inside=False)), set(_imports(tree, inside=True))
    return Source(
        path.relative_to(ROOT).as_posix(),
        fingerprint(tree),
        frozenset(loaded),
        frozenset(lazy - loaded),
    )


def fingerprint(tree: ast.AST) -> str:
    """The hash of a syntax tree without docstrings and without places in the file."""
    return sha256("".join(_told(tree)).encode()).hexdigest()[:LENGTH]


def _told(node: Any) -> Iterator[str]:
    """A node as text, its fields in the order of their names. Empty fields are left out: one
    version of Python has fields that another has not."""
    if isinstance(node, ast.Constant):
        yield f"{type(node.value).__name__}:{node.value!r};"
    elif isinstance(node, ast.AST):
        yield f"{type(node).__name__}("
        for name, value in sorted(ast.iter_fields(node)):
            if isinstance(node, ast.JoinedStr):
                value = [part for part in value if not _is_empty(part)]
            if value not in (None, []) and name not in ("ctx", "type_comment"):
                yield f"{name}="
                yield from _told(value)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for one in node:
            if not _is_text(one):
                yield from _told(one)
        yield "]"
    else:
        yield f"{node!r};"


def _is_text(node: Any) -> bool:
    """Whether a statement is a docstring, of a module, a class, a function or a value."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_empty(part: ast.expr) -> bool:
    """Whether a part of an f-string is empty text, which Python 3.12 puts after a nested format."""
    return isinstance(part, ast.Constant) and part.value == ""


EMPTY = fingerprint(ast.parse('"""A package that defines nothing."""'))


def _imports(tree: ast.AST, *, inside: bool) -> Iterator[str]:
    """Modules of this project that a file imports: those that its functions import, with
    ``inside``, or those that it imports when it is loaded."""
    for node in _statements(tree, inside, deep=False):
        if isinstance(node, ast.Import):
            names: Iterable[str] = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "cosearch" and _file(name):
                yield name


def _statements(node: ast.AST, inside: bool, *, deep: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        below = deep or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        if deep == inside:
            yield child
        yield from _statements(child, inside, deep=below)


def _file(name: str) -> Path | None:
    path = ROOT.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def _data(folder: str | None, flat: Mapping[str, Any]) -> dict[str, str]:
    """Files of package data by path; of templates, those of the sets that the settings name."""
    if folder is None:
        return {}
    sets = {str(value) for key, value in flat.items() if key.split(".")[-1] == "templates"}
    return {
        file: hashed
        for file, hashed in _hashes(folder).items()
        if folder != TEMPLATES or file.split("/")[-2] in sets
    }


@cache
def _hashes(folder: str) -> dict[str, str]:
    files = sorted(path for path in (ROOT / folder).rglob("*") if path.is_file())
    return {
        path.relative_to(ROOT).as_posix(): sha256(path.read_bytes()).hexdigest()[:LENGTH]
        for path in files
    }
