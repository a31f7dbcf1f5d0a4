"""The benchmarks run to their end at a small size."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import faiss_size, false_verdicts, kernels, text_rules
from benchmarks.faiss_size import growth
from benchmarks.false_verdicts import SHAPES, false_share
from benchmarks.vectors import Mixture, write_shards
from cosearch.engines.retrieval.index_kinds import KINDS
from tests.settings import tiny

SMALL = ["--dimension", "32", "--queries", "64", "--repeats", "1", "--k", "10"]


def cells(text: str) -> dict[str, list[str]]:
    """Kind -> cells of its row, without the parameters."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row[len(row) - 6 :] if len(row) > 6 else row[1:] for row in rows[1:]}


def test_a_mixture_is_repeatable_unit_and_clustered() -> None:
    mixture = Mixture(dimension=32, clusters=20, spread=0.5, seed=1)
    drawn = mixture.draw(400, 0)
    np.testing.assert_array_equal(drawn, mixture.draw(400, 0))
    assert not np.array_equal(drawn, mixture.draw(400, 1))
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1.0, rtol=1e-5)
    near = np.sort(drawn @ drawn.T, axis=1)[:, -6:-1]
    assert near.mean() > 0.7, "the five nearest are of the same cluster"


def test_every_kind_is_measured_and_extrapolated(tmp_path: Path) -> None:
    out = tmp_path / "table.md"
    faiss_size.main(["--rows", "2000", "--out", str(out), *SMALL])
    measured, extrapolated = map(cells, out.read_text("utf-8").split("## By the growth laws"))
    assert list(measured) == list(extrapolated) == list(KINDS)
    recall = {kind: float(row[0]) for kind, row in measured.items()}
    assert recall["flat"] == recall["ivf_flat"] == recall["hnsw"] == 1.0
    assert 0.2 < recall["pq"] < recall["ivf_pq"] < recall["sq8"] <= recall["fp16"]
    ratios = [float(row[1]) for row in extrapolated.values()]
    assert ratios == pytest.approx([1.0] * len(KINDS), abs=0.02), "formula over measured"
    assert float(extrapolated["flat"][0]) == pytest.approx(21_015_324 * 32 * 4 / 1e9, abs=0.1)


def test_encoded_vectors_are_measured_too(tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    folder.mkdir()
    write_shards(Mixture(32, 20, 0.5, 1), 1000, folder)
    out = tmp_path / "table.md"
    faiss_size.main(["--vectors", str(folder), "--kinds", "fp16", "--out", str(out), *SMALL])
    assert "| fp16 |" in out.read_text("utf-8")
    assert "| sq8 |" not in out.read_text("utf-8")


def test_the_growth_laws() -> None:
    assert growth("flat", 4.0, 1000) == (1.0, 4.0, 4.0)
    assert growth("ivf_pq", 4.0, 1000) == (4.0, 8.0, 2.0)
    assert growth("hnsw", 1000.0, 1000) == pytest.approx((1.0, 2000.0, 2.0))


def test_the_questions_that_the_rules_for_text_move_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = {
        "1": ("What is Ann's occupation?", ["painter"]),
        "2": ("Which country does Ann come from?", ["no", "Norway"]),
        "3": ("Which country does Bo come from?", ["Sweden"]),
    }
    rows = [{"id": i, "question": q, "golden_answers": g} for i, (q, g) in questions.items()]
    (tmp_path / "questions").mkdir()
    (tmp_path / "questions/nq.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    passage = {"id": "p", "title": "Ann", "text": "She had no painter."}
    run = "dataset\tquestion_id\trank\tpassage_id\tscore\n"
    run += "".join(f"nq\t{number}\t1\tp\t1.0\n" for number in questions)
    files = {"corpus.jsonl.gz": json.dumps(passage), "bm25_top50.tsv.gz": run}
    for name, text in files.items():
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    text_rules.main([str(tmp_path)])
    printed = capsys.readouterr().out
    assert "| nq | 3 | 1 | 1 | 0 | 1 | 0 |" in printed
    assert "| nq | 3 | 3 | 1, 1 | 1, 1 | 1, 1 |" in printed


def test_equal_systems_are_seldom_told_apart_where_verdicts_are_given() -> None:
    """Each share is of 300 trials, so its standard error is 1.5 points at 7 %."""
    least = tiny().file.statistics.min_questions
    assert false_share("steps", 7, 2, trials=300, draws=200) > 0.12
    for shape in SHAPES:
        assert false_share(shape, 1, least, trials=300, draws=200) < 0.11


def test_the_table_of_false_verdicts_has_a_line_for_each_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    false_verdicts.main(["--trials", "2", "--draws", "10"])
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[1]) for line in lines[2:]] == [*false_verdicts.QUESTIONS]


def test_the_kernels_of_a_processor_have_hashes(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for updates in ("1", "1", "0"):
        kernels.main(["--compute", "--updates", updates])
        shown.append(capsys.readouterr().out.strip().split(" | ")[:-1])
    assert shown[0] == shown[1]
    same = [one == other for one, other in zip(shown[0], shown[2], strict=True)]
    assert same == [True, False, True, True], "an update changes the weights alone"
