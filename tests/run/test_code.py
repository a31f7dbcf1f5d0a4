"""Fingerprints of code: what counts, what does not, and which modules are special."""

import ast
from pathlib import Path

import pytest

from cosearch.run import code
from cosearch.run.reads import READS
from tests.test_architecture import modules

SAMPLE = '''
"""A module."""
from dataclasses import dataclass, field
LIMIT = 3_000
NAMES: dict[str, float] = {"a": 1e-6, **{"b": -0.5}}
@dataclass(frozen=True, slots=True)
class Point:
    """A point."""
    x: int = 0
    label: str = field(default="it's", kw_only=True)
    async def wait(self, *rest, deep: bool = True, **more) -> "Point":
        """Wait."""
        async with self as here:
            return await here(*rest, **more)
def outer(values, /, *, scale=1.5):
    """Scale them."""
    def inner(value):
        nonlocal scale
        scale += 1
        return f"{value!r:>{LIMIT}} {scale:.2f}" f"{value['x']}" "…"
    match values:
        case [Point(x=0), *others] if others:
            return [inner(one) for one in others]
        case {"a": 1, **left} | left:
            return lambda x, y=2: (x @ y, ~x, not y, left)
        case None:
            ...
    try:
        yield from (value := values)[1:, ::2]
    except* (ValueError, OSError) as error:
        raise RuntimeError(b"\\x00") from error
    while True:
        break
    else:
        del values
    global LIMIT
    return x if 0 <= len(value) < 10 else {*value}
'''
GOLDEN = "8033bda64b54d0d3"
"""As Python 3.11 and 3.12 reckon it."""


def fingerprint(source: str) -> str:
    return code.fingerprint(ast.parse(source))


def test_the_fingerprint_of_a_sample_is_the_same_everywhere() -> None:
    assert fingerprint(SAMPLE) == GOLDEN


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A module."""', ""),
        ('"""Wait."""', '"""Wait for it."""'),
        ('        """Wait."""\n', ""),
        ('    """A point."""', "    # a point"),
        ("3_000", "3000"),
        ("LIMIT = 3_000", "LIMIT = (\n    3_000\n)"),
        ('"it\'s"', "'it\\'s'"),
        ('"b": -0.5', "'b': -.5"),
    ],
)
def test_words_and_layout_do_not_count(old: str, new: str) -> None:
    assert old in SAMPLE
    assert fingerprint(SAMPLE.replace(old, new)) == GOLDEN


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("3_000", "3_001"),
        ("3_000", "3000.0"),
        ('"it\'s"', '"its"'),
        ("frozen=True", "frozen=False"),
        ("frozen=True", "frozen=1"),
        ("slots", "order"),
        ("x: int = 0", "x: int"),
        ("x: int = 0", "y: int = 0"),
        ("values, /, *, scale", "values, *, scale"),
        ("scale += 1", "scale -= 1"),
        ("{value!r:>", "{value!s:>"),
        (":.2f", ":.3f"),
        ("…", "..."),
        ("case None:", "case True:"),
        ("except*", "except"),
        ("from error", ""),
        ("0 <= len", "0 < len"),
        ("break", "pass"),
        ("-> ", "-> None or "),
        ("from dataclasses import dataclass, field", "from dataclasses import field, dataclass"),
    ],
)
def test_what_the_code_does_counts(old: str, new: str) -> None:
    assert old in SAMPLE
    assert fingerprint(SAMPLE.replace(old, new, 1)) != GOLDEN


def test_every_reader_of_package_data_is_known() -> None:
    readers = {
        module.name
        for module in modules()
        if module.name.startswith("cosearch.")
        and {"importlib.resources", "importlib.resources.files"} & set(module.imports())
    }
    opened = {module.name for module in modules() if "resources.files(" in module.source}
    assert opened <= readers
    assert readers == set(code.DATA)
    for folder in code.DATA.values():
        assert [path for path in (code.ROOT / folder).rglob("*") if path.is_file()]


def test_engines_that_rows_choose_are_there_and_imported_lazily() -> None:
    sources = {module.name: code.read_source(module.name) for module in modules()}
    assert code.CHOSEN.keys() <= sources.keys()
    assert code.CHOSEN.keys() <= {
        one for held in sources.values() for one in held.lazy | held.loaded
    }
    engines = {sources[name].file for name in code.CHOSEN}
    for stage in READS:
        assert not engines & code.code_of(f"stages.{stage}", {}).keys(), stage


def test_an_engine_counts_where_a_setting_names_it() -> None:
    """A module that no setting names counts for every row that can reach it."""
    assert code.is_chosen("cosearch.engines.policies.codec_hf", {})
    assert not code.is_chosen("cosearch.engines.policies.generator_vllm", {"agent.engine": "hf"})
    assert code.is_chosen("cosearch.engines.policies.generator_vllm", {"agent.engine": "vllm"})
    assert not code.is_chosen("cosearch.engines.policies.generator_vllm", {"agent.kind": "vllm"})


def test_sources_are_found_in_this_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert code.read_source("cosearch.core.text").file == "cosearch/core/text.py"
    with pytest.raises(ValueError, match="no such module"):
        code.read_source("cosearch.core.absent")


def test_no_module_is_fooled_by_the_name_of_its_package() -> None:
    """``APART`` leaves out two packages, and no other whose name begins alike."""
    assert not [
        module.name
        for module in modules()
        if module.name.startswith(code.APART)
        and not any(f"{module.name}.".startswith(f"{package}.") for package in code.APART)
    ]
