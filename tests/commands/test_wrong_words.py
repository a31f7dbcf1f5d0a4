"""Commands with a wrong word, before any output, or in another folder end in one helpful line."""

import subprocess
import sys
from pathlib import Path

import pytest

from cosearch.__main__ import main
from tests.settings import ROOT

PROFILE = ["--profile", "tyni"]
NOWHERE = "no such file; run from the project's root"
COMMANDS = [
    ["show", "--profile", "tiny", "--scope", "all_1"], ["results", "--scope", "all_1"], ["check"],
    ["rows"], ["models", "--profile", "tiny"], ["status"], ["fetch", "--profile", "paper"],
    ["doctor"], ["plan", "--profile", "tiny"], ["add-row", "x", "--like", "start", "a=1"],
    ["remove-row", "start"], ["experiments"], ["report"], ["row", "start"], ["ask", "--row", "a-0"],
    ["export", "--row", "a-0", "--to", "b"], ["show", "--scope", "here"],
    ["init", "--questions", "q", "--corpus", "c", "--name", "mine"],
]  # fmt: skip


def told(*words: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(words)
    message = str(caught.value)
    assert message.startswith("error: ") and "\n" not in message
    return message


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_outside_a_project_every_command_says_so(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert NOWHERE in told(*words)
    assert not list(tmp_path.iterdir())


def test_the_folder_of_a_profile_is_not_the_root(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "profiles" / "mini")
    for command in ("status", "experiments", "rows"):
        assert told(command).endswith("run from the project's root, ../..")


@pytest.mark.parametrize(
    ("words", "help"),
    [
        (["show", *PROFILE, "--scope", "all_1"], "no 'tyni'; there are mini, paper, tiny"),
        (["check", *PROFILE], "no 'tyni'; there are mini, paper, tiny"),
        (["models", *PROFILE], "no 'tyni'; there are mini, paper, tiny"),
        (["fetch", *PROFILE], "no 'tyni'; there are mini, paper, tiny"),
        (["doctor", *PROFILE], "no 'tyni'; there are mini, paper, tiny"),
        (["plan", *PROFILE], "no 'tyni'; there are mini, paper, tiny"),
        (["show", "--profile", "tiny", "--scope", "al_1"], "no 'al_1'; did you mean 'all_1'"),
        (["results", "--scope", "core_9"], "--scope: no 'core_9'; did you mean 'core_"),
        (["show", "--profile", "tiny", "--scope", "all_1"], "run `dvc repro report@all_1`"),
        (
            ["show", "--profile", "mini", "--scope", "core_1"],
            "mini/dvc.yaml:report@core_1",
        ),
        (["results", "--scope", "all_1"], "no such table yet; run `dvc repro report@all_1`"),
        (["plan", "--profile", "tiny", "--seeds", "0"], "0 seeds: a row has 1 to 5"),
        (["plan", "--profile", "tiny", "--seeds", "9"], "9 seeds: a row has 1 to 5"),
    ],
)
def test_a_wrong_word_is_told_with_what_may_have_been_meant(
    project: Path, words: list[str], help: str
) -> None:
    assert help in told(*words)


@pytest.mark.parametrize(
    ("stage", "words", "help"),
    [
        ("tables", ["--scope", "core_9"], "no 'tables@core_9'; did you mean 'tables@core_5'"),
        (
            "train",
            ["--row", "cosaerch-0"],
            "did you mean 'train@cosearch-0'",
        ),
        ("fixed_ranker", ["--seed", "9"], "profile tiny: no 'fixed_ranker@9'; did you mean"),
    ],
)
def test_a_stage_that_the_graph_has_not_is_told(
    project: Path, stage: str, words: list[str], help: str
) -> None:
    command = [sys.executable, "-m", f"stages.{stage}", "--profile", "tiny", *words]
    environment = {"PYTHONPATH": str(ROOT), "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith(f"error: {stage}: ")
    assert help in done.stderr and done.stderr.count("\n") == 1
