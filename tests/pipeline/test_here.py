"""The rows that are on a machine, whatever they are: made by name, shown, and put in a report."""

import csv
import os
import signal
import subprocess
import sys

import pytest

from tests.pipeline.project import ROOT, Project
from tests.pipeline.test_watched import copied

COSEARCH = (sys.executable, "-m", "cosearch")
SHOW = (*COSEARCH, "show", "--scope", "here")
EVALUATED = "artifacts/tiny/evaluate/core/seed_0"
GONE = ("start", "fixed_ranker", "oracle")


@pytest.fixture(scope="module")
def part(reproduced: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy that lacks the retriever's measures and some rows, and has one that is no row."""
    rows = [f"{EVALUATED}/{row}" for row in GONE]
    folder = tmp_path_factory.mktemp("part")
    project = copied(reproduced, folder, "rows", "artifacts/tiny/retrieval", *rows)
    kept = project.folder / EVALUATED
    subprocess.run(["cp", "-r", kept / "rag", kept / "removed"], check=True)
    return project


def cells(shown: str, row: str) -> list[str]:
    """The words of the line of a row."""
    (found,) = (line.split() for line in shown.splitlines() if line.split()[:1] == [row])
    return found


def test_rows_stand_beside_their_references(reproduced: Project) -> None:
    shown = reproduced.command(*SHOW).stdout
    table = reproduced.folder / "artifacts/tiny/tables/core_1/comparisons.csv"
    with table.open(encoding="utf-8", newline="") as lines:
        row = next(row for row in csv.DictReader(lines) if row["metric"] == "f1")
    assert row["Left against right"] == "CoSearch against Untrained agent and ranker"
    wanted = [float(row[name]) for name in ("left", "difference", "95% low", "95% high")]
    told = cells(shown, "cosearch")
    numbers = [told[2], *(word for word in told[6:] if word != "to")]
    assert told[5] == "start" and [f"{value:+.3f}" for value in wanted[1:]] == numbers[1:]
    assert float(numbers[0]) == round(wanted[0], 3)
    assert cells(shown, "fixed_ranker")[5] == "retrieval_only"
    assert "not made here: cot, search_o1, " in shown
    alone = reproduced.command(*SHOW, "--row", "cosearch").stdout
    assert [line.split()[-5] for line in alone.splitlines() if " to " in line] == [
        "start", "retrieval_only", "fixed_ranker",
    ]  # fmt: skip


def test_rows_that_are_not_there_are_named_in_one_line(part: Project) -> None:
    shown = part.command(*SHOW).stdout
    (line,) = (line for line in shown.splitlines() if line.startswith("not made here: "))
    assert set(GONE) <= set(line.replace(",", "").split())
    assert cells(shown, "cosearch")[5] == "retrieval_only" and "removed" not in shown
    done = part.command(*COSEARCH, "report")
    assert "report: artifacts/tiny/report/here/report.html" in done.stdout
    page = (part.folder / "artifacts/tiny/report/here/report.html").read_text("utf-8")
    assert "CoSearch" in page and "Learning curves of every run" in page


def test_a_changed_file_is_refused(part: Project) -> None:
    path = part.folder / EVALUATED / "rag" / "calls.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    done = part.command(*SHOW, check=False)
    path.write_bytes(content)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {EVALUATED}/rag/calls.parquet: truncated or altered; evaluate the system again\n"
    )


@pytest.mark.parametrize(
    ("words", "name"),
    [(("cosearc",), "cosearch"), (("cosearch", "--seed", "1"), "seeds 0 to 0")],
)
def test_a_wrong_name_is_refused_before_any_work(
    part: Project, words: tuple[str, ...], name: str
) -> None:
    done = part.command(*COSEARCH, "row", *words, check=False)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert name in done.stderr


def test_one_row_is_made_by_its_name(part: Project) -> None:
    subprocess.run(["cp", "-r", f"{ROOT}/flows", part.folder], check=True)
    done = part.command(*COSEARCH, "row", "oracle")
    assert "evaluate@oracle-0" in done.stderr and "train@oracle-0" not in done.stderr
    assert cells(done.stdout, "oracle")[5] == "retrieval_only"
    assert not (part.folder / EVALUATED / "start").exists(), "no other row is made"
    again = part.command(*COSEARCH, "row", "cosearch").stderr
    assert all(f"{stage}@cosearch-0" not in again for stage in ("train", "evaluate", "gate"))


def test_tables_that_cannot_be_made_are_kept(part: Project) -> None:
    kept = part.bytes_of("tables/core_1/*", "oracle_gap/core_1/*", "summary/core_1/*")
    folder = part.folder / "artifacts/tiny"
    (folder / "collected").rename(folder / "away")
    for stage in ("tables", "oracle_gap"):
        done = part.command("dvc", "repro", "--single-item", f"{stage}@core_1", check=False)
        assert done.returncode and "collected/core-0.json" in done.stderr
    (folder / "away").rename(folder / "collected")
    assert kept == part.bytes_of("tables/core_1/*", "oracle_gap/core_1/*", "summary/core_1/*")


def test_a_stage_ends_in_one_line_at_ctrl_c(part: Project) -> None:
    """A terminal sends the signal to DVC and to the stage alike."""
    told: list[str] = []
    with subprocess.Popen(
        ["dvc", "repro", "--single-item", "--force", "evaluate@rag-0"],
        cwd=part.folder, env=part.environment(), process_group=0, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as run:  # fmt: skip
        assert run.stdout is not None
        for line in run.stdout:
            told.append(line)
            if "retriever answered" in line:
                os.killpg(run.pid, signal.SIGINT)
    assert run.returncode
    place = next(place for place, line in enumerate(told) if "retriever answered" in line)
    first, *rest = told[place + 1 :]
    assert first == "evaluate: stopped; start it again to go on\n"
    assert [line.split(":")[0] for line in rest if line.strip()] == ["ERROR"]


def test_ctrl_c_while_a_stage_is_loaded_prints_no_traceback(part: Project) -> None:
    """Before the stage listens, the process ends as a program does that knows no signal."""
    code = "import os, signal, stages; os.kill(os.getpid(), signal.SIGINT)"
    done = part.command(sys.executable, "-c", code, "stages.train", check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


ASCII = ("env", "LC_ALL=C", "PYTHONIOENCODING=ascii", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0")
"""A terminal that takes no other signs."""
LATER = pytest.mark.extended


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("show --scope core_1", "+-----"),
        ("show --scope here", "F1 less that of"),
        ("ask --row rag-0 été?", "question: \\xe9t\\xe9?"),
        pytest.param("report", "report: artifacts/tiny/report/here", marks=LATER),
        pytest.param("status", "nothing runs", marks=LATER),
        pytest.param("plan --profile tiny", "disk: fits", marks=LATER),
        pytest.param("check", "", marks=LATER),
        pytest.param("rows", "rows.yaml: up to date", marks=LATER),
        pytest.param("export --row cosearch-0 --to made", "made: ", marks=LATER),
        pytest.param("doctor", "outputs", marks=LATER),
    ],
)
def test_a_terminal_without_utf_8_shows_every_command(
    reproduced: Project, words: str, shown: str
) -> None:
    done = reproduced.command(*ASCII, *COSEARCH, *words.split(), check=False)
    assert shown in done.stdout and "codec" not in done.stderr, done.stderr
    assert done.stdout.isascii()
