"""The few numbers of a row are those of its metrics."""

from pathlib import Path

from cosearch.evaluation.score import write_score
from cosearch.files.artifacts import SKIPPED, read_json, write_json


def test_a_row_has_four_flat_numbers(tmp_path: Path) -> None:
    macro = {"f1": 0.25, "em": 0.2, "searches": 1.5, "well_formed": 1.0}
    averages = {"macro": macro, "micro": {"questions": 28}}
    write_json(tmp_path / "row" / "metrics.json", {"averages": averages})
    told = write_score(tmp_path / "row", tmp_path / "score.json")
    assert told == "F1 0.250, EM 0.200, 1.50 searches per question, 28 questions"
    assert read_json(tmp_path / "score.json") == {
        "f1": 0.25, "em": 0.2, "searches": 1.5, "questions": 28,
    }  # fmt: skip


def test_a_row_without_results_has_no_question(tmp_path: Path) -> None:
    write_json(tmp_path / "row" / SKIPPED, {"status": "not run"})
    assert write_score(tmp_path / "row", tmp_path / "score.json") == "not run"
    assert read_json(tmp_path / "score.json") == {"questions": 0}
