"""The cards of exported folders: README.md with the front matter that the hub reads."""

import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCardData, EvalResult, ModelCardData
from jinja2 import Environment, PackageLoader, StrictUndefined

from cosearch.data.assemble import read_data_manifest
from cosearch.export.finished import FinishedRow
from cosearch.export.prompts import RolePrompts
from cosearch.export.scores import Score, row_scores
from cosearch.export.terms import data_license, model_license, published_as
from cosearch.files.artifacts import Paths
from cosearch.params.settings import Settings
from cosearch.statistics.scope import PROFILE_NOTES
from cosearch.tables.evidence import scope_of

TAGS_OF_CARDS = ("cosearch", "arxiv:2604.17555", "grpo", "retrieval-augmented-generation")


class Cards:
    """Writes the cards of one row. ``license``: what the caller says of the licence, or None."""

    def __init__(self, settings: Settings, row: FinishedRow, license: str | None) -> None:
        self._settings = settings
        self._row = row
        self._license = license
        self._scores = row_scores(row.result, scope_of(settings), settings.file.statistics)

    def model(self, folder: str, prompts: Sequence[RolePrompts]) -> str:
        """The card of a model that plays the roles of ``prompts``."""
        role = prompts[0]
        base, _ = self._row.bases[role.role]
        front = ModelCardData(
            license=model_license(self._settings, base, self._license),
            language="en",
            library_name="transformers",
            pipeline_tag="text-ranking" if role.scorer else "text-generation",
            tags=list(TAGS_OF_CARDS),
            base_model=published_as(self._settings, base),
            model_name=f"{self._row.name}-{folder}",
            eval_results=[_eval_result(score) for score in self._scores],
        )
        return self._render("model", front, folder=folder, prompts=prompts)

    def row(self, folders: Mapping[str, Sequence[str]]) -> str:
        """The card above the models; folder -> its roles."""
        return self._render("row", None, folders=folders)

    def rollouts(self, files: Mapping[str, Mapping[str, Path]], columns: str) -> str:
        """The card of a data set. ``files``: configuration -> split -> file below the folder."""
        front = DatasetCardData(
            license=data_license(self._settings, self._license),
            language="en",
            pretty_name=f"Rollouts of {self._row.label}",
            tags=list(TAGS_OF_CARDS),
            configs=[
                {
                    "config_name": name,
                    "data_files": [
                        {"split": split, "path": path.as_posix()} for split, path in splits.items()
                    ],
                    **({"default": True} if number == 0 else {}),
                }
                for number, (name, splits) in enumerate(files.items())
            ],
        )
        return self._render("rollouts", front, files=files, columns=columns)

    def _render(self, name: str, front: Any, **more: Any) -> str:
        values = {
            "row": self._row,
            "scores": self._scores,
            "level": round(100 * self._settings.file.statistics.level),
            "draws": self._settings.file.statistics.draws,
            "note": PROFILE_NOTES.get(self._row.profile, f"profile {self._row.profile}"),
            "changed": self._row.variant["set"],
            "data": read_data_manifest(Paths(self._row.profile)),
            "data_license": data_license(self._settings, self._license),
            "commit": commit(),
        }
        text = _templates().get_template(f"{name}.md.j2").render(values | more)
        return text if front is None else f"---\n{front.to_yaml()}\n---\n\n{text}"


def _eval_result(score: Score) -> EvalResult:
    interval = f"{score.f1.low:.3f} to {score.f1.high:.3f}"
    return EvalResult(
        task_type="question-answering",
        dataset_type=score.name,
        dataset_name=f"{score.name} ({score.questions} questions)",
        metric_type="f1",
        metric_value=round(score.f1.estimate, 4),
        metric_name=f"F1 ({100 * score.f1.level:.0f} % interval {interval})",
    )


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("cosearch.export", "cards"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def commit() -> str:
    """The commit of the project in the current folder, and whether files differ from it."""
    try:
        head = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "none: the project lies in no repository"
    return f"{head}, with changes that are not committed" if changed else head


def _git(*words: str) -> str:
    done = subprocess.run(
        ("git", *words), capture_output=True, encoding="utf-8", errors="replace", check=True
    )
    return done.stdout.strip()
