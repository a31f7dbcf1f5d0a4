"""The built wheel: alone on the standard library, and inside the trainers of docs/elsewhere.md."""

import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import asdict
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from cosearch.core.grouping import Member, group_calls
from tests.core.builders import preset
from tests.environments import ROOT, bare_environment, environment_beside, pip

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


IN_TRL = """
import json
import train_with_trl as example

seen = []

class Watched(example.GroupedTrainer):
    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        rows = [(row["question"], row["query"], row["has_answer"]) for row in inputs]
        rewards = self.paid.sum(dim=1).tolist()
        seen.append((rewards, rows, output["advantages"].tolist()))
        return output

example.GroupedTrainer = Watched
agent, ranker = example.main()
history = [row for row in agent.state.log_history if "tools/call_frequency" in row]
print(json.dumps({
    "seen": seen,
    "steps": [agent.state.global_step, ranker.state.global_step],
    "searches": len(agent.played),
    "calls": [row["tools/call_frequency"] for row in history],
}))
"""
IN_VERL = """
import json
import numpy, torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.reward import get_custom_reward_fn

given = json.load(open("given.json"))
function = {"path": "pkg://for_verl", "name": "compute_score"}
score = get_custom_reward_fn(OmegaConf.create({"reward": {"custom_reward_function": function}}))
text = "<reason>a</reason><tool_call>{}</tool_call> x <reason>b</reason><answer>Oslo</answer>"
rewards = torch.tensor(given["rewards"])
data = DataProto.from_dict(
    tensors={
        "token_level_rewards": torch.stack([torch.zeros_like(rewards), rewards], dim=1),
        "response_mask": torch.ones(len(rewards), 2),
    },
    non_tensors={"uid": numpy.array(["one"] * len(rewards), dtype=object)},
)
found = compute_advantage(data, "cosearch", config=OmegaConf.create({})).batch["advantages"]
print(json.dumps({
    "score": score(data_source="nq", solution_str=text, ground_truth=["Oslo"], extra_info={}),
    "advantages": found.tolist(),
}))
"""
VERL = ("verl==0.9.1", "ray", "tensordict", "pyvers", "codetiming", "torchdata", "peft")
"""verl and what its advantages import. The rest of what it requires is for GPUs, or older."""
RANKS = {1.0: 0, 0.666667: 1, 0.333333: 3, 0.0: 5}
"""r_rel under the cutoffs 1, 3 and 5 -> the place of the only relevant document."""


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
    return bare_environment(tmp_path_factory.mktemp("bare"), "--no-index", str(wheel))


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the document, and an environment with TRL and the wheel."""
    folder = tmp_path_factory.mktemp("elsewhere")
    environment_beside(folder / "venv", "trl==1.16.*", str(wheel))
    for name, code in documented().items():
        (folder / name).write_text(code, "utf-8")
    (folder / "models").symlink_to(ROOT / "models")
    return folder


def documented() -> dict[str, str]:
    """The files of docs/elsewhere.md by the names in their first lines."""
    text = (ROOT / "docs/elsewhere.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n# (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return dict(blocks)


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


def test_the_document_gives_the_golden_numbers() -> None:
    files = documented()
    assert sorted(files) == ["credit.py", "for_verl.py", "train_with_trl.py"]
    for name, code in files.items():
        compile(code, name, "exec")
    names: dict[str, Any] = {}
    exec(files["credit.py"], names)
    rules = preset("paper")
    assert (names["REWARD"], names["GROUP"]) == (rules.reward, rules.group)
    assert names["ADVANTAGE"] == rules.advantage
    golden = json.loads((GOLDEN / "composite.json").read_text("utf-8"))
    cases = [case for case in golden["cases"] if case[2] in RANKS]
    assert len(cases) > 5
    for good, has_answer, relevance, main, paper, _ in cases:
        labels = [bool(has_answer) and place == RANKS[relevance] for place in range(6)]
        text = "<reason>so</reason><rerank>[1] > [2] > [3] > [4] > [5]</rerank>"
        paid = names["ranking_reward"](text if good else "so", labels, 5, main)
        assert paid == pytest.approx(paper, abs=1e-6)
    turn = "<reason>so</reason><answer>the old town</answer>"
    assert names["answer_reward"](turn, ["Old Town", "x"]) == 1.0
    assert names["answer_reward"]("the old town", ["Old Town"]) == -0.2
    given = json.loads((GOLDEN / "advantages.json").read_text("utf-8"))
    rows = [("one", "", True) for _ in given["rewards"]]
    found = names["advantages"](given["rewards"], rows)
    assert found == pytest.approx(given["sample"], abs=1e-5)


def run_elsewhere(folder: Path, code: str, **variables: str) -> dict[str, Any]:
    """What a program in that environment prints last, as JSON."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    kept |= {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(folder), **variables}
    command = [str(folder / "venv/bin/python"), "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=kept)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.extended
def test_trl_trains_agent_and_ranker_on_our_advantages(elsewhere: Path) -> None:
    found = run_elsewhere(elsewhere, IN_TRL, TRL_EXPERIMENTAL_SILENCE="1")
    assert found["steps"] == [2, 2]
    assert found["searches"] > 32 and min(found["calls"]) > 0
    names: dict[str, Any] = {}
    exec(documented()["credit.py"], names)
    alone = names["GroupRules"](semantic=False, delta=0.0, k_min=1)
    for rules, rounds in ((alone, found["seen"][:2]), (names["GROUP"], found["seen"][2:])):
        assert any(any(used) for _, _, used in rounds)
        for rewards, rows, used in rounds:
            assert used == pytest.approx(names["advantages"](rewards, rows, rules), abs=1e-5)
    _, rows, _ = found["seen"][2]
    members = [Member((place, 0), query, has) for place, (_, query, has) in enumerate(rows)]
    assert max(len(group) for group in group_calls(members, names["GROUP"])) > 8


@pytest.mark.extended
def test_verl_finds_the_reward_and_the_estimator(elsewhere: Path) -> None:
    pip("--python", str(elsewhere / "venv/bin/python"), "install", "--no-deps", *VERL)
    given = json.loads((GOLDEN / "advantages.json").read_text("utf-8"))
    (elsewhere / "given.json").write_text(json.dumps(given))
    found = run_elsewhere(elsewhere, IN_VERL, VERL_USE_EXTERNAL_MODULES="for_verl")
    assert found["score"] == 1.0
    assert [row[0] for row in found["advantages"]] == pytest.approx(given["sample"], abs=1e-5)
