"""An instance runs again when what it depends on has changed, and only then."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cosearch.run.code import APART, EMPTY, read_source
from cosearch.run.reads import READS
from tests.pipeline.project import ROOT, Project

Edit = Callable[[str], str]
CARRIED = {
    "cosearch.engines.policies.build": "run/stage.py asks it whether this is another rank",
    "cosearch.engines.models": "engines/policies/build.py imports it",
    "cosearch.files.artifacts": "run/stage.py writes its record with it",
    "cosearch.files.durable": "files/artifacts.py writes with it",
    "cosearch.files.hashes": "run/stage.py holds models against their record",
    "cosearch.files.model_record": "run/stage.py holds models against their record",
    "stages": "the package itself only says how Ctrl-C ends a process that still loads",
}
"""Modules that every stage has loaded because its frame uses them, which counts for no identity."""
LAZY = ("judge-0", "zerosearch-0", "cross_encoder-0")
"""Rows that use engines which the core rows do not."""


@pytest.fixture(scope="module")
def workshop(reproduced: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the reproduced project whose code and parameters may be edited."""
    folder = tmp_path_factory.mktemp("workshop")
    subprocess.run(["cp", "-r", f"{reproduced.folder}/.", str(folder)], check=True)
    return Project(folder)


@pytest.fixture(scope="module")
def usual(workshop: Project) -> dict[str, str]:
    """The identities as they are before any edit."""
    return identities(workshop)


def identities(project: Project) -> dict[str, str]:
    """Instance -> the text of its identity, made anew."""
    project.command(sys.executable, "-m", "stages.identity", "--profile", "tiny")
    found = project.bytes_of("identity/*.json")
    return {Path(name).stem: content.decode() for name, content in found.items()}


@contextmanager
def edited(project: Project, edits: Mapping[str, Edit]) -> Iterator[None]:
    """Files with other text, for a while."""
    kept = {}
    try:
        for name, edit in edits.items():
            path = project.folder / name
            kept[path] = path.read_bytes()
            text = edit(kept[path].decode())
            assert text.encode() != kept[path], name
            path.write_text(text, "utf-8")
        yield
    finally:
        for path, content in kept.items():
            path.write_bytes(content)


def put(old: str, new: str) -> Edit:
    """Replace text that is there."""

    def edit(text: str) -> str:
        assert old in text, old
        return text.replace(old, new)

    return edit


def changed(project: Project, usual: Mapping[str, str], edits: Mapping[str, Edit]) -> set[str]:
    """Instances whose identity is another one under the edits."""
    with edited(project, edits):
        found = identities(project)
    assert found.keys() == usual.keys()
    return {name for name in usual if found[name] != usual[name]}


def stages_of(instances: set[str]) -> set[str]:
    return {name.partition("@")[0] for name in instances}


def whole(usual: Mapping[str, str], *stages: str) -> set[str]:
    """All instances of the stages."""
    return {name for name in usual if name.partition("@")[0] in stages}


def commented(text: str) -> str:
    return f"{text}\n# A remark that changes nothing.\n"


def redocumented(text: str) -> str:
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    doc = next(filter(None, (ast.get_docstring(node, clean=False) for node in functions)))
    return text.replace(doc, "Said in other words.")


def reformatted(text: str) -> str:
    return ast.unparse(ast.parse(text))


HARMLESS: dict[str, Edit] = {
    "cosearch/core/rewards.py": redocumented,
    "cosearch/train/loop.py": commented,
    "cosearch/core/rollout.py": reformatted,
    "cosearch/tables/main.py": reformatted,
    "cosearch/engines/policies/generator_vllm.py": lambda text: f"{text}\nUNUSED = 1\n",
    "cosearch/engines/policies/trainer_deepspeed.py": lambda text: f"{text}\nUNUSED = 1\n",
    "cosearch/core/templates/paper/agent.txt": lambda text: f"{text}more",
    "cosearch/run/progress.py": lambda text: f"{text}\nUNUSED = 1\n",
}
"""Words, layout, engines and prompts that profile tiny does not use, and what shows progress."""


def test_nothing_is_stale_after_edits_that_change_no_result(
    workshop: Project, usual: dict[str, str]
) -> None:
    with edited(workshop, HARMLESS):
        assert workshop.stale("report@core_1") == set()
        assert identities(workshop) == usual


def test_an_edited_rule_makes_stale_what_plays_and_learns(
    workshop: Project, usual: dict[str, str]
) -> None:
    edit = {"cosearch/core/grouping.py": put(">= rules.k_min", "> rules.k_min")}
    with edited(workshop, edit):
        stale = workshop.stale("report@core_1")
        found = identities(workshop)
    again = {name for name in usual if found[name] != usual[name]}
    assert whole(usual, "train", "gate", "evaluate", "fixed_ranker") <= again
    assert not stages_of(again) & {"data", "encode", "index", "retrieval", "collected"}
    assert stale == again & {*stale, *core(usual)}


def core(usual: Mapping[str, str]) -> set[str]:
    """Instances that report@core_1 needs."""
    told = {name: json.loads(text)["settings"].get("row", {}) for name, text in usual.items()}
    more = {name for name, row in told.items() if row.get("part") == "more"}
    return {name for name in usual if name not in more and not name.endswith(("all_1", "more-0"))}


@pytest.mark.parametrize(
    ("edits", "stages"),
    [
        (
            {"cosearch/tables/layout.py": put('_EMPTY = "–"', '_EMPTY = "-"')},
            ("oracle_gap", "tables", "report"),
        ),
        ({"stages/train.py": put('"row")', '"row", *())')}, ("train",)),
        (
            {"cosearch/core/templates/tiny/agent.txt": lambda text: f"{text}more"},
            ("fixed_ranker", "train", "gate", "evaluate"),
        ),
    ],
    ids=["tables", "a page", "a prompt"],
)
def test_an_edit_makes_stale_the_stages_that_run_it(
    workshop: Project, usual: dict[str, str], edits: Mapping[str, Edit], stages: tuple[str, ...]
) -> None:
    assert changed(workshop, usual, edits) == whole(usual, *stages)


def test_a_new_model_changes_the_row_that_starts_from_it_alone(
    workshop: Project, usual: dict[str, str]
) -> None:
    folder = workshop.folder / "models/tiny/newcomer"
    shutil.copytree(workshop.folder / "models/tiny/ranker_small", folder)

    def use(params: dict[str, Any]) -> None:
        params["rows"]["small_ranker"]["set"] = {"models.ranker_small": "models/tiny/newcomer"}

    def back(params: dict[str, Any]) -> None:
        del params["rows"]["small_ranker"]["set"]

    record = workshop.folder / "models/tiny.json"
    before = record.read_bytes()
    recorded = json.loads(before)
    try:
        workshop.command(sys.executable, "-m", "cosearch", "models", "--profile", "tiny")
        assert identities(workshop) == usual
        workshop.edit(use)
        workshop.command(sys.executable, "-m", "cosearch", "models", "--profile", "tiny")
        found = identities(workshop)
    finally:
        workshop.edit(back)
        shutil.rmtree(folder)
        record.write_bytes(before)
    own = {"train@small_ranker-0", "gate@small_ranker-0"}  # the evaluation follows by its data
    shown = whole(usual, "oracle_gap", "tables", "report")
    assert {name for name in usual if found[name] != usual[name]} == own | shown
    trained = json.loads(found["train@small_ranker-0"])["models"]
    assert trained["models/tiny/newcomer"] == recorded["models/tiny/ranker_small"]
    assert "models/tiny/ranker_small" not in trained


def test_a_stage_that_is_started_alone_says_what_has_changed(
    workshop: Project, usual: dict[str, str]
) -> None:
    gamma = put("      gamma: 0.5\n", "      gamma: 0.3\n")
    rule = put(">= rules.k_min", "> rules.k_min")
    with edited(workshop, {"params.yaml": gamma, "cosearch/core/grouping.py": rule}):
        train = (sys.executable, "-m", "stages.train", "--profile", "tiny")
        done = workshop.command(*train, "--row", "cosearch-0", check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1] == (
        "error: train: artifacts/tiny/identity/train@cosearch-0.json is older than the project"
        " (core/grouping.py changed; reward.gamma 0.5 -> 0.3); run `dvc repro identity`"
    )


def renamed(text: str) -> str:
    """The parameters with another name for the row ``start``."""
    for head in ("  ", "- ", "like: ", "right: "):
        text = re.sub(rf"^(.*{head})start\b", r"\1beginning", text, flags=re.MULTILINE)
    return text


def test_stages_side_by_side_are_planned_with_the_identities_of_now(workshop: Project) -> None:
    shutil.copytree(ROOT / "flows", workshop.folder / "flows", dirs_exist_ok=True)
    edit = {"cosearch/core/grouping.py": put(">= rules.k_min", "> rules.k_min")}
    command = (sys.executable, "-m", "flows.side_by_side", "--dry", "report@core_1")
    with edited(workshop, edit):
        told = workshop.command(*command).stdout
    plan = {name: action for action, name, *_ in map(str.split, told.splitlines())}
    assert {plan["data"], plan["encode"], plan["index"]} == {"unchanged"}
    assert {plan["train@cosearch-0"], plan["evaluate@rag-0"], plan["report@core_1"]} == {"check"}


@pytest.mark.parametrize(
    "edits",
    [{"rows.yaml": put("seed: 0", "seed: 7")}, {"params.yaml": renamed}],
    ids=["edited", "older"],
)
def test_check_names_a_stale_list_of_rows(workshop: Project, edits: Mapping[str, Edit]) -> None:
    with edited(workshop, edits):
        done = workshop.command(sys.executable, "-m", "cosearch", "check", check=False)
    assert done.returncode == 1
    told = "rows.yaml: the rows of params.yaml have changed since; run `python -m cosearch rows`"
    assert done.stderr == f"error: {told}\n"


@pytest.fixture(scope="module")
def ran(workshop: Project, usual: dict[str, str]) -> Project:
    """The copy, in which the rows over other engines were trained too, for one short round."""

    def shorten(params: dict[str, Any]) -> None:
        counts = dict.fromkeys(("rounds", "questions", "update_questions", "shard_questions"), 1)
        params["profiles"]["tiny"]["train"] |= counts

    workshop.edit(shorten)
    targets = (f"train@{row}" for row in LAZY)
    workshop.command("dvc", "repro", *targets)
    return workshop


def test_an_identity_holds_all_code_that_its_stage_loads(
    ran: Project, usual: dict[str, str]
) -> None:
    records = sorted((ran.folder / ".imports").glob("*.json"))
    told = {path.stem: json.loads(path.read_text("utf-8")) for path in records}
    told = {name: loaded for name, loaded in told.items() if name in usual}
    assert stages_of(set(told)) == set(READS)
    assert {f"train@{row}" for row in LAZY} <= told.keys()
    unknown = {name: held for name in told if (held := _not_held(told[name], usual[name]))}
    assert not unknown


def _not_held(loaded: list[str], identity: str) -> list[str]:
    """Loaded modules that define something and that the identity does not hold."""
    code = json.loads(identity)["code"]
    return [
        name
        for name in loaded
        if not name.startswith(APART)
        and name not in CARRIED
        and (source := read_source(name)).fingerprint != EMPTY
        and source.file not in code
    ]


def test_a_stage_asks_for_what_its_identity_holds_and_for_all_of_it(ran: Project) -> None:
    asked: dict[str, set[str]] = {}
    for path in sorted((ran.folder / "artifacts/tiny/timing").glob("*.json")):
        record = json.loads(path.read_text("utf-8"))
        name = record["stage"].partition("@")[0]
        asked.setdefault(name, set()).update(record["parameters_read"])
    del asked["identity"]
    assert asked == {name: set(reads.names) for name, reads in READS.items()}
