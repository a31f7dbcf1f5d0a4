"""The results of one machine beside those of another, for every exit code of ``verify``."""

import csv
import shutil
import subprocess
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from cosearch.__main__ import main
from cosearch.commands.verify import ExitCode
from cosearch.files.artifacts import Paths, read_json
from cosearch.run.lock import hashes_in, output_hash, read_lock
from tests.pipeline.project import PARAMETERS, Project

FILES = (*PARAMETERS, "rows.yaml", "profile.yaml", "dvc.lock")
KEPT = ("tables", "oracle_gap", "summary", "metrics")
"""Outputs that git keeps."""
MAIN = Path("artifacts/tiny/tables/core_1/main_large.csv")
COMPARISONS = Path("artifacts/tiny/tables/core_1/comparisons.csv")
NOTES = COMPARISONS.with_suffix(".md")


@pytest.fixture
def machine(reproduced: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a finished project, as a git repository with its first commit; the current
    folder."""
    folder = tmp_path / "this machine"
    shutil.copytree(reproduced.folder / "artifacts", folder / "artifacts")
    for name in FILES:
        shutil.copyfile(reproduced.folder / name, folder / name)
    monkeypatch.chdir(folder)
    run("init", "-q")
    commit(folder)
    return folder


def run(*words: str) -> None:
    subprocess.run(["git", *words], check=True, capture_output=True)


def commit(folder: Path) -> None:
    run("add", "-f", *FILES, *(f"artifacts/tiny/{kind}" for kind in KEPT))
    run("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "results")


def verified(*words: str) -> ExitCode:
    with pytest.raises(SystemExit) as told:
        main(["verify", *words])
    return ExitCode(told.value.code)


def change(path: Path, edit: Callable[[str], str]) -> None:
    """Edit a file with results, as another machine would have written it."""
    before = path.read_text("utf-8")
    path.write_text(edit(before), "utf-8")
    assert path.read_text("utf-8") != before


def cell(text: str, row: str, column: str, value: str) -> str:
    """A table with one cell replaced."""
    lines = [line.split(",") for line in text.splitlines()]
    place = lines[0].index(column)
    found = next(line for line in lines if line[0] == row)
    found[place] = value
    return "\n".join(map(",".join, lines)) + "\n"


def score(text: str) -> float:
    """RAG's score on one data set."""
    return next(
        float(one["nq"]) for one in csv.DictReader(StringIO(text)) if one["System"] == "RAG"
    )


def nudged(text: str) -> str:
    """The main table with one score moved by less than its interval."""
    return cell(text, "RAG", "nq", f"{abs(score(text) - 0.05):.6f}")


def turned(text: str) -> str:
    """The main table with one score moved to the other end."""
    return cell(text, "RAG", "nq", "0.000000" if score(text) > 0.5 else "1.000000")


def test_the_hash_of_an_output_is_that_of_dvc(reproduced: Project) -> None:
    for name, entry in read_lock(reproduced.folder).items():
        for path, known in hashes_in(entry, "outs").items():
            assert output_hash(reproduced.folder / path) == known, name


def test_a_run_says_on_what_machine_it_was_made(reproduced: Project) -> None:
    made = read_json(reproduced.folder / Paths("tiny").timing("train@cosearch-0"))["made_by"]
    assert made["portable"] == 0 and made["maker"] and "torch" in made["packages"]


def test_equal_results_are_reproduced_to_the_byte(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verified() is ExitCode.BYTES
    assert capsys.readouterr().out.endswith("\nreproduced to the byte\n")


def test_numbers_within_their_intervals_are_noise(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(MAIN, nudged)
    assert verified() is ExitCode.NOISE
    told = capsys.readouterr().out
    assert "RAG" in told and told.endswith("\nreproduced within noise\n")


def test_other_bytes_under_equal_tables_are_noise(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The vectors of the passages differ, and no table shows it."""
    shard = next(Path("artifacts/tiny/encoded").rglob("*.npy"))
    shard.write_bytes(shard.read_bytes() + b"\0")
    assert verified() is ExitCode.NOISE
    assert "the first that differs is artifacts/tiny/encoded" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "edit", "word"),
    [
        (MAIN, turned, "NO"),
        (MAIN, lambda text: text.replace("RAG", "RAG again"), "RAG again"),
        (MAIN, lambda text: "".join(text.splitlines(keepends=True)[:-1]), "layout"),
        (COMPARISONS, lambda text: text.replace("too few questions", "above 0"), "above 0"),
        (NOTES, lambda text: f"{text}\nA new note.\n", "more than numbers differ"),
    ],
)
def test_what_noise_cannot_explain_is_different(
    machine: Path,
    path: Path,
    edit: Callable[[str], str],
    word: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(path, edit)
    assert verified() is ExitCode.DIFFERENT
    told = capsys.readouterr().out
    assert word in told and told.endswith("\ndifferent\n")


def test_a_folder_is_another_machine(
    reproduced: Project, machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(MAIN, nudged)
    commit(machine)
    assert verified("--against", str(reproduced.folder)) is ExitCode.NOISE
    assert verified("--against", "HEAD~1") is ExitCode.NOISE
    Path("artifacts/tiny/identity/encode.json").write_text("{}\n", "utf-8")
    assert verified() is ExitCode.NOISE
    assert "made under other settings, models or code there: 1 stages" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "gone", "line"),
    [
        (("--against", "nowhere"), "", "--against nowhere: no folder, and no revision"),
        (("--scope", "all_1"), "", "holds no results of report@all_1"),
        (("--scope", "core_9"), "", "core_9"),
        ((), "encoded", "outputs are not on this machine, the first is artifacts/tiny/encoded"),
    ],
)
def test_there_is_nothing_to_compare(
    machine: Path,
    words: tuple[str, ...],
    gone: str,
    line: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if gone:
        shutil.rmtree(Path("artifacts/tiny") / gone)
    assert verified(*words) is ExitCode.NOTHING
    told = capsys.readouterr().err
    assert line in told and told.count("\n") == 1
