"""The few numbers of an evaluated row: a file for ``dvc metrics`` and a line for the reader."""

from pathlib import Path
from typing import Any

from cosearch.files.artifacts import SKIPPED, read_json, write_json

SHOWN = ("f1", "em", "searches")
"""Macro averages that the file holds beside the number of questions; searches are per question."""


def write_score(folder: Path, target: Path) -> str:
    """Write the numbers of the row that was evaluated into ``folder``, and return them in words.

    A row without results has no numbers: the file holds 0 questions, and the words say why.
    """
    if (folder / SKIPPED).is_file():
        write_json(target, {"questions": 0})
        return str(read_json(folder / SKIPPED)["status"])
    averages: dict[str, Any] = read_json(folder / "metrics.json")["averages"]
    macro, questions = averages["macro"], averages["micro"]["questions"]
    write_json(target, {name: macro[name] for name in SHOWN} | {"questions": questions})
    return (
        f"F1 {macro['f1']:.3f}, EM {macro['em']:.3f}, {macro['searches']:.2f} searches per"
        f" question, {questions} questions"
    )
