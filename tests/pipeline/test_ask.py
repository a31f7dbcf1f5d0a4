"""What a reader is shown of a question is what the evaluation of the row recorded."""

import io
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from cosearch.__main__ import main
from tests.pipeline.project import Project

EVALUATED = "artifacts/tiny/evaluate/core/seed_0"
ASK = ("-m", "cosearch", "ask")
FREE = "which river is the longest one ?"
SHOWN = re.compile(r"  ● \d+ +(\d+) +")


def recorded(project: Project, system: str) -> pl.DataFrame:
    return pl.read_parquet(project.folder / EVALUATED / system / "trajectories.parquet")


def told(text: str) -> tuple[list[str], list[int], list[str]]:
    """Queries, places in D_N of what was shown, and answers, in the order of the text."""
    queries = re.findall(r"^search: (.*?) *$", text, re.MULTILINE)
    places = [int(place) - 1 for place in SHOWN.findall(text)]
    return queries, places, re.findall(r"^answer: (.*?) \(F1 [\d.]+\) *$", text, re.MULTILINE)


def expected(frame: pl.DataFrame) -> tuple[list[str], list[int], list[str]]:
    calls = frame.filter(kind="call")
    answers = frame.filter(kind="trajectory")["answer"].drop_nulls().to_list()
    return calls["query"].to_list(), calls["ranking"].explode().to_list(), answers


def files(project: Project) -> dict[Path, int]:
    folders = [project.folder / name for name in ("artifacts", ".runs")]
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {path: path.stat().st_mtime_ns for path in found}


def test_test_questions_get_the_trajectories_that_were_recorded(reproduced: Project) -> None:
    frame, before = recorded(reproduced, "cosearch"), files(reproduced)
    questions = frame.filter(kind="trajectory")["question"].to_list()
    assert len(questions) == len(set(questions)) == 28
    done = subprocess.run(
        [sys.executable, *ASK, "--row", "cosearch-0"],
        input="\n".join([*questions, "", "never asked"]),
        cwd=reproduced.folder,
        env=reproduced.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert told(done.stdout) == expected(frame)
    assert "\x1b" not in done.stdout and "never asked" not in done.stdout
    assert files(reproduced) == before


@pytest.mark.parametrize(
    "system", ["direct", "fixed_ranker", "oracle", "rag", "retrieval_only", "start"]
)
def test_every_kind_of_row_answers(
    reproduced: Project,
    system: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(reproduced.folder)
    frame = recorded(reproduced, system).filter(pl.col("dataset") == "nq")
    asked = frame.filter(kind="trajectory")["question"].to_list()
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(asked)))
    main(["ask", "--row", f"{system}-0"])
    assert told(capsys.readouterr().out) == expected(frame)


def test_two_rows_stand_side_by_side_and_a_note_is_shown(
    reproduced: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(reproduced.folder)
    main(["ask", "--row", "search_o1-0", "--against", "cosearch-0", FREE])
    text = capsys.readouterr().out
    assert "(not a question of the test set)" in text
    assert re.search(r"^search_o1-0 +cosearch-0 *$", text, re.MULTILINE)
    assert len(re.findall("turn 1: ", text)) == len(re.findall(r"●  ?1|● 1", text)) == 2
    assert "note: " in text and "F1" not in text


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("oracle-0", "oracle-0 ranks by the gold answers"),
        ("judge-0", "judge-0 is not trained here.*make row ROW=judge SEED=0`"),
        ("cosearc-0", "no evaluated row 'cosearc-0' in profile tiny; near: cosearch-0"),
        ("zzz", "near: rows.yaml lists them"),
    ],
)
def test_a_row_that_cannot_answer_says_why_in_one_line(
    reproduced: Project, row: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(reproduced.folder)
    with pytest.raises(SystemExit, match=f"^error: .*{words}") as left:
        main(["ask", "--row", row, FREE])
    assert "\n" not in str(left.value)


def test_between_questions_an_error_is_one_line(
    reproduced: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(reproduced.folder)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{FREE}\n{FREE}\n"))
    main(["ask", "--row", "oracle-0"])
    printed = capsys.readouterr()
    assert printed.out.count(FREE) == 2
    assert [line.partition(" ranks")[0] for line in printed.err.splitlines() if line] == [
        "error: oracle-0", "error: oracle-0",
    ]  # fmt: skip
