"""The built wheel without extras: the paper's algorithm, on the standard library alone."""

import json
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import asdict
from email.parser import Parser
from pathlib import Path

import pytest

from tests.core.builders import preset

ROOT = Path(__file__).parents[1]
SOURCES = ("cosearch", "stages", "flows")
GOLDEN = ROOT / "tests/core/golden"

USE = """
import json, pkgutil, sys
from importlib import import_module

before = set(sys.modules)
import cosearch.core
from cosearch.core.advantages import AdvantageRules, group_advantages
from cosearch.core.grouping import GroupRules, Member, group_calls
from cosearch.core.prompts import load_template
from cosearch.core.rewards import RewardRules, composite_reward

given = json.load(sys.stdin)
rules = RewardRules(**given["reward"])
paid = [
    composite_reward(well_formed=bool(f), has_answer=bool(i), r_rel=rel, main=main, rules=rules)[0]
    for f, i, rel, main, *_ in given["cases"]
]
queries = ("France defeated Germany", "capital of Norway", "the Germany defeated France")
members = [Member((0, turn), query, True) for turn, query in enumerate(queries)]
groups = group_calls(members, GroupRules(**given["group"]))
for module in pkgutil.iter_modules(cosearch.core.__path__):
    import_module(f"cosearch.core.{module.name}")
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps({
    "paid": paid,
    "groups": [[member.key[1] for member in group] for group in groups],
    "advantages": group_advantages(given["rewards"], AdvantageRules(**given["advantage"])),
    "blocks": len(load_template("paper", "ranker")),
    "foreign": sorted(tops - set(sys.stdlib_module_names)),
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the sources, because the build writes beside them."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(folder))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment in which nothing but the wheel is installed."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder)
    python = folder / "bin/python"
    pip("--python", str(python), "install", "--no-index", str(wheel))
    return python


def pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "-q", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def run(python: Path, words: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(python), "-I", *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, cwd=python.parent)


def test_the_wheel_requires_nothing_without_an_extra(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        (path,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        found = Parser().parsestr(files.read(path).decode())
    needs = found.get_all("Requires-Dist", [])
    assert any(need.startswith("torch") for need in needs)
    assert [need for need in needs if "extra ==" not in need] == []
    templates = (ROOT / "cosearch/core/templates").rglob("*.txt")
    assert {str(path.relative_to(ROOT)) for path in templates} <= set(names)


def test_the_core_computes_with_the_standard_library_alone(bare: Path) -> None:
    rules = preset("paper")
    composite = json.loads((GOLDEN / "composite.json").read_text("utf-8"))
    advantages = json.loads((GOLDEN / "advantages.json").read_text("utf-8"))
    given = {
        "reward": asdict(rules.reward),
        "group": asdict(rules.group) | {"k_min": 1},
        "advantage": asdict(rules.advantage),
        "cases": composite["cases"],
        "rewards": advantages["rewards"],
    }
    done = run(bare, ["-c", USE], json.dumps(given))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    paper = composite["fields"].index("paper")
    assert found["paid"] == pytest.approx([case[paper] for case in composite["cases"]])
    assert found["groups"] == [[0, 2], [1]]
    assert found["advantages"] == pytest.approx(advantages["sample"], abs=1e-6)
    assert found["blocks"] > 0
    assert found["foreign"] == ["cosearch"]


def test_a_command_without_the_extras_says_which_to_install(bare: Path) -> None:
    done = run(bare, ["-m", "cosearch", "status"])
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "pip install 'cosearch[cpu]'" in line and "cosearch[gpu]" in line
