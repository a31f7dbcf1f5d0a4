"""Every fenced block of the documents is run, or at least checked. None is passed over."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from dvc.cli import DvcParserError

from cosearch.__main__ import main
from cosearch.params.settings import load_settings
from tests.pipeline.commands import Words, check, parameters, stage_names
from tests.pipeline.documents import (
    DOCUMENTS,
    ROOT,
    Block,
    Command,
    apply_diff,
    blocks,
    simple_commands,
)
from tests.pipeline.project import PARAMETERS, Project

BLOCKS = blocks()
RUN = {"add-row", "check", "init", "plan", "rows", "status"}
"""Commands of ``python -m cosearch`` that are cheap: they run, and print what is shown."""
DONE = {("exp", "show"), ("queue", "status")}
"""Commands of DVC that look, and do nothing."""
NEXT = "next command\n"
"""The document whose Python runs in other trainers: tests/test_library.py runs it."""
IN_ONE_PROCESS = f"""
import json, sys
from dvc.cli import main
for words in json.loads(sys.argv[1]):
    print({NEXT!r}, end="", flush=True)
    if main(words):
        sys.exit(f"failed: {{words}}")
    sys.stdout.flush()
"""
PROSE = re.compile(r"`((?:make|python -m|dvc|srun) [^`\n]+)`")


def of(*languages: str) -> Any:
    found = [block for block in BLOCKS if block.language in languages]
    assert found, languages
    return pytest.mark.parametrize("block", found, ids=[block.name for block in found])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with parameters and a user's files, as working folder."""
    for name in ("models", "profiles/mini"):
        (tmp_path / name).mkdir(parents=True)
    for name in (*PARAMETERS, "dvc.yaml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    for name in ("profile.yaml", "rows.yaml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
        shutil.copyfile(ROOT / "profiles/mini" / name, tmp_path / "profiles/mini" / name)
    asked = [{"question": f"Who wrote book {n}?", "answer": [f"writer {n}"]} for n in range(50)]
    texts = [{"id": f"p{n}", "title": f"Book {n}", "text": f"By writer {n}."} for n in range(500)]
    for name, rows in (("q", asked), ("c", texts)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_language_has_a_test() -> None:
    assert {block.language for block in BLOCKS} <= {
        "bibtex", "console", "sh", "yaml", "python", "sql", "diff", "mermaid", "text",
    }  # fmt: skip


@of("console")
def test_every_console_command_runs_or_exists(
    block: Block,
    folder: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in block.commands():
        if command.words[:3] == ("python", "-m", "cosearch") and command.words[3] in RUN:
            capsys.readouterr()
            main(command.words[3:])
            printed = capsys.readouterr().out.splitlines()
            assert printed and command.shown in ((), tuple(printed))
        elif command.words[0] == "tail":
            follow(command, request.getfixturevalue("reproduced"))
        else:
            check(command.words)
            held = command.words[0] == "dvc"
            assert held or not command.shown, f"{block.name}: nobody holds this output to truth"


def follow(command: Command, reproduced: Project) -> None:
    """The file is there after a run, and each line tells something."""
    told = (reproduced.folder / command.words[-1]).read_text("utf-8").splitlines()
    assert told and all(isinstance(json.loads(line), dict) for line in told)


@of("sh")
def test_every_script_parses_and_names_what_exists(block: Block) -> None:
    parsed = subprocess.run(
        ["bash", "-n"], input=block.text, capture_output=True, text=True, check=False
    )
    assert parsed.returncode == 0, parsed.stderr
    commands = block.commands()
    assert commands
    for command in commands:
        check(command.words)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_inside_sentences_exist(path: Path) -> None:
    for found in PROSE.findall(path.read_text("utf-8")):
        for words in simple_commands(found):
            if not any(word.isupper() or word == "..." for word in words):
                check_mention(words)


def check_mention(words: Words) -> None:
    """As a command, but a sentence may leave out all that a parser wants."""
    try:
        check(words)
    except (SystemExit, DvcParserError):
        if any(word.startswith("-") for word in words if word != "-m"):
            raise
        with pytest.raises(SystemExit) as left:
            check((*words, "--help"))
        assert left.value.code == 0, words


def test_the_example_parameters_are_good(tmp_path: Path) -> None:
    named = {block.name for block in BLOCKS if block.language == "yaml"}
    params = deepcopy(parameters())
    assert params["rows"].pop("feedback")["method"] == "feedback"  # no method without its code
    for name in PARAMETERS:
        shutil.copyfile(ROOT / name, tmp_path / name)
    write_parameters(tmp_path, params)
    settings = load_settings("mine", tmp_path / "params.yaml")
    assert len(named) == 4
    assert settings.variants["no_gate"].set == {"reward.gamma": 0.0}
    assert settings.tables.ablations.rows[-1].label == "w/o gate"
    assert {"train@no_gate-0", "evaluate@no_gate-0", "evaluate@feedback-0"} <= stage_names()


def test_the_command_writes_the_row_that_the_readme_shows(folder: Path) -> None:
    (command,) = [c.words for c in console("README.md") if c.words[3:4] == ("add-row",)]
    main(command[3:])
    written = yaml.safe_load((folder / "params.yaml").read_text("utf-8"))["rows"]
    shown = parameters()["rows"]["no_gate"]
    assert written["no_gate"] == shown


@of("mermaid")
def test_the_picture_shows_stages(block: Block) -> None:
    shown = set(re.findall(r"\b[a-z][a-z_]*\b", re.sub(r'\["[^"]*"\]', "", block.text)))
    stages = {name for name in stage_names() if "@" not in name}
    assert shown - {"flowchart"} == stages


@of("text")
def test_every_place_in_a_list_is_there(block: Block) -> None:
    for line in block.text.splitlines():
        assert (ROOT / line.split()[0]).is_dir(), line


def test_dvc_plans_and_queues_what_is_written(tmp_path: Path) -> None:
    """What would train is planned, in one process; what only looks or queues is done."""
    project = Project.make(tmp_path)
    write_parameters(tmp_path, parameters())
    add_method(tmp_path)
    project.command("python", "-m", "cosearch", "rows")
    (tmp_path / ".dvc" / "config").write_text("[core]\n    analytics = false\n")
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    shutil.copyfile(ROOT / ".dvcignore", tmp_path / ".dvcignore")
    me = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*me, "commit", "-qm", "all")):
        project.command("git", *words)
    commands = [command for command in console() if command.words[0] == "dvc"]
    done = [c for c in commands if c.words[1:3] in DONE or "--queue" in c.words]
    planned = [command for command in commands if command.words[1] == "repro"]
    assert len(done) >= 3 and len(planned) >= 4
    words = [[*command.words[1:], "--dry", "--force"] for command in planned]
    words += [list(command.words[1:]) for command in done]
    told = project.command(sys.executable, "-c", IN_ONE_PROCESS, json.dumps(words)).stdout
    for command, text in zip([*planned, *done], told.split(NEXT)[1:], strict=True):
        said = [masked(line) for line in text.splitlines()]
        assert said and not [line for line in command.shown if masked(line) not in said], text
    for command, text in zip(planned, told.split(NEXT)[1:], strict=False):
        ran = re.findall(r"Running stage '(.*)'", text)
        assert fnmatchcase(ran[-1], command.words[-1]), text


def masked(line: str) -> str:
    """Without ids, times and the width of columns."""
    line = re.sub(r"\b[0-9a-f]{7}\b", "ID", line)
    return " ".join(re.sub(r"\d\d:\d\d [AP]M", "TIME", line).split())


def write_parameters(folder: Path, params: Mapping[str, Any]) -> None:
    (folder / "params.yaml").write_text(yaml.safe_dump(dict(params), sort_keys=False), "utf-8")


def console(*files: str) -> list[Command]:
    """The commands of the console blocks of some documents, or of all."""
    chosen = [
        one for one in BLOCKS if one.language == "console" and (not files or one.file in files)
    ]
    return [command for block in chosen for command in block.commands()]


def test_a_new_method_is_what_the_document_says(reproduced: Project, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(reproduced.folder, folder, ignore=shutil.ignore_patterns(".runs", "report"))
    project = Project(folder)
    add_method(folder)

    def add(params: dict[str, Any]) -> None:
        params["rows"]["feedback"] = parameters()["rows"]["feedback"]

    project.edit(add)
    commands = [
        command.words
        for block in BLOCKS
        if block.file == "docs/methods.md" and block.language == "console"
        for command in block.commands()
    ]
    assert [words[0] for words in commands] == ["python", "dvc"]
    for words in commands:
        project.command(*words)
    made = folder / "artifacts/tiny/evaluate/more/seed_0/feedback"
    asked = pl.read_parquet(made / "predictions.parquet")["question"].to_list()
    searched = pl.read_parquet(made / "calls.parquet")["query"].to_list()
    assert len(asked) == len(searched) == 28
    for question, query in zip(asked, searched, strict=True):
        assert query.startswith(f"{question} ") and len(query) > len(question) + 1


def add_method(folder: Path) -> None:
    """Write the method of the documents into the code of a project."""
    (code,) = (b.text for b in BLOCKS if b.language == "python" and b.file == "docs/methods.md")
    (folder / code.splitlines()[0].removeprefix("# ")).write_text(code, "utf-8")
    for block in BLOCKS:
        if block.language == "diff":
            apply_diff(block.text, folder)


ABSENT = """
frobnicate
make absent
python -m absent
python -m cosearch absent
python -m cosearch plan --absent
python -m flows.serve --absent
python -m stages.absent
python -m stages.train --profile tiny
python -m stages.train --profile tiny --row absent
python -m stages.train --profile absent --row cosearch-0
python -m stages.tables --profile tiny --scope core_seeds
dvc repro --absent
dvc repro absent@0
dvc repro profiles/absent/dvc.yaml:data
dvc exp run --set-param absent.key=1 data
dvc exp run --set-param seed_count=one data
export NOBODY_READS_THIS=1
prefect absent
deepspeed --absent --module stages.data --profile tiny
srun --gpus=1 bash -c 'exec python -m stages.data'
"""


@pytest.mark.parametrize("line", ABSENT.strip().splitlines())
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    for words in simple_commands(line):
        with pytest.raises((AssertionError, SystemExit, DvcParserError, FileNotFoundError)):
            check(words)


def test_commands_are_cut_as_a_shell_does() -> None:
    script = (
        'A=1 B=${2:?a word} dvc pull x && make y  # why\nexport C=$(one "t w o" | two)\n'
        "srun \\\n  bash -c 'exec three' > out\n"
    )
    assert list(simple_commands(script)) == [
        ("dvc", "pull", "x"), ("make", "y"), ("export", "C=$"), ("one", "t w o"), ("two",),
        ("srun", "bash", "-c", "exec three"),
    ]  # fmt: skip
