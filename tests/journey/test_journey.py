"""A newcomer's first day in a fresh clone: run it, ask, try, keep, discard, hand on.

Every command is one of README.md or of a document that it names, run as it stands there. The tests
build on one another, in their order.
"""

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.journey.clone import Clone
from tests.pipeline.project import ROOT

COSEARCH = ("python", "-m", "cosearch")
EVALUATED = "artifacts/tiny/evaluate/core/seed_0/cosearch"
LABELLED = ("--label", "w/o gate", "reward.gamma=0")
LONGER = "profiles.tiny.train.rounds=2"
LOAD = """
import importlib.util, sys
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer

assert importlib.util.find_spec("cosearch") is None
for folder in map(Path, sys.argv[1:]):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    chat = [{"role": "user", "content": "which film opened in Todoford ?"}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")
    said = model.generate(**ids, max_new_tokens=8, do_sample=False)
    print(folder.name, tokenizer.decode(said[0]))
"""
"""What a colleague runs who has transformers and not this project."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The clone after its first command, ``make repro``, and a commit of what that recorded."""
    made = Clone.make(tmp_path_factory.mktemp("journey") / "cosearch")
    printed = made.tell("make", "repro")
    assert "Fixed Ranker" in printed and "report.html" in printed
    made.commit("First results")
    return made


def test_the_first_command_leaves_a_report_and_nothing_untracked(clone: Clone) -> None:
    page = clone.folder / "artifacts/tiny/report/core_1/report.html"
    assert "CoSearch" in page.read_text("utf-8")
    assert clone.changes() == []


def test_a_trained_row_answers_a_question_as_it_did_in_its_evaluation(clone: Clone) -> None:
    recorded = pl.read_parquet(clone.folder / EVALUATED / "predictions.parquet")
    asked = recorded.filter(pl.col("prediction").str.len_chars() > 0).row(0, named=True)
    told = clone.tell(*COSEARCH, "ask", "--row", "cosearch-0", asked["question"])
    assert asked["question"] in told and f"answer: {asked['prediction']}" in told


def test_an_experiment_shows_its_own_number_and_can_be_kept(clone: Clone) -> None:
    run = ("dvc", "exp", "run", "--temp", "--name", "longer", "--set-param", LONGER)
    clone.run(*run, "evaluate@cosearch-0")
    assert clone.changes() == []
    shown = clone.tell(*COSEARCH, "experiments")
    compared = json.loads(clone.tell("dvc", "exp", "show", "--json"))
    clone.run("dvc", "exp", "branch", "longer", "longer")
    clone.run("git", "merge", "-q", "longer")
    clone.run("dvc", "checkout", "--with-deps", "evaluate@cosearch-0")
    metrics = clone.folder / "artifacts/tiny/metrics/cosearch-0.json"
    own = json.loads(metrics.read_text("utf-8"))
    rounds = pl.read_csv(clone.folder / "artifacts/tiny/train/core/seed_0/cosearch/metrics.csv")
    assert rounds["round"].max() == 2
    predictions = pl.read_parquet(clone.folder / EVALUATED / "predictions.parquet")
    macro = predictions.group_by("dataset").agg(pl.col("f1").mean())["f1"].mean()
    assert own["f1"] == pytest.approx(macro, abs=1e-6)
    assert json.dumps(own["f1"]) in json.dumps(compared)
    assert "longer" in shown and f"{own['f1']:.3f}" in shown
    assert clone.changes() == []


def test_a_new_row_is_made_shown_and_taken_back(clone: Clone) -> None:
    clone.run(*COSEARCH, "add-row", "no_gate", "--like", "cosearch", *LABELLED)
    made = clone.tell("make", "row", "ROW=no_gate")
    shown = clone.tell(*COSEARCH, "show", "--scope", "here", "--row", "no_gate")
    assert "no_gate" in shown and "cosearch" in shown
    assert set(shown.splitlines()) <= set(made.splitlines())
    clone.run(*COSEARCH, "remove-row", "no_gate", "--yes")
    assert clone.changes() == []
    assert not list(clone.folder.glob("artifacts/tiny/*/*/seed_0/no_gate"))


@pytest.fixture(scope="module")
def handed_on(clone: Clone, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported models of CoSearch."""
    folder = tmp_path_factory.mktemp("exported") / "cosearch"
    clone.run(*COSEARCH, "export", "--row", "cosearch-0", "--to", str(folder))
    return folder


def test_the_models_are_handed_on_with_their_cards(clone: Clone, handed_on: Path) -> None:
    assert clone.changes() == []
    trained = clone.folder / "artifacts/tiny/train/core/seed_0/cosearch"
    for role in ("agent", "ranker"):
        weights = (trained / role / "model.safetensors").read_bytes()
        assert (handed_on / role / "model.safetensors").read_bytes() == weights
        assert "license:" in (handed_on / role / "README.md").read_text("utf-8")


@pytest.mark.extended
def test_a_colleague_loads_the_models_without_the_project(handed_on: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(venv)], check=True)
    pinned = ("-c", str(ROOT / "constraints-cpu.txt"), "torch", "transformers", "safetensors")
    subprocess.run(
        [uv, "pip", "install", "-q", "--python", str(venv / "bin/python"), *pinned], check=True
    )
    folders = [str(handed_on / role) for role in ("agent", "ranker")]
    done = subprocess.run(
        [str(venv / "bin/python"), "-I", "-c", LOAD, *folders],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert [line.split()[0] for line in told] == ["agent", "ranker"]
    assert all("Todoford" in line for line in told)
