"""The shipped base models of the generated world, from scratch.

They are trained with fixed seeds on one CPU thread. No model is taught a fact of the world on which
the pipeline evaluates: the facts of that world are drawn only in order to avoid them.

``encoder``, ``ranker`` and ``agent`` play the paper's parts. ``ranker_small`` and ``agent_small``
are smaller and weaker; ``shared`` plays both roles. ``simulator`` writes documents on request and
``cross_encoder`` scores pairs. ``agent_tags`` and ``agent_tags_small`` write the tags of Search-R1.
They have the weights of ``agent`` and ``agent_small``, and only their tokenizers spell the control
tokens differently. Training sees ids, not spellings, so a separate training would give the same
weights.

Models after the first three are stored in bfloat16, half the bytes, and measured as stored.
"""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from cosearch.files.artifacts import write_json
from cosearch.files.hashes import hash_files
from cosearch.pretrain.exam import Exam
from cosearch.pretrain.measure import Measures
from cosearch.pretrain.recipe import Interface, Recipe
from cosearch.pretrain.school import Report, School
from cosearch.pretrain.words import SEARCH_R1_TAGS, save_tokenizer

_RECORD = "recipe.json"


@dataclass(frozen=True, slots=True)
class Lesson:
    """How a shipped model is made.

    Holds the source of its weights, its exam, the keys of the recipe that influence either
    (``reads``), its number type, its spelling of control tokens, and a note for its record.
    """

    weights: Callable[[School], Any]
    exam: Callable[[Exam, Path], Measures]
    reads: tuple[str, ...]
    dtype: torch.dtype = torch.bfloat16
    spelling: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


_ALL = ("seed", "lexicon", "encoder", "rows", "passes", "curriculum", "script", "measured")
_LARGE, _SMALL = (*_ALL, "shape", "ranker"), (*_ALL, "small", "ranker_small")
_AGENT, _AGENT_SMALL = (*_LARGE, "agent", "pool"), (*_SMALL, "agent_small", "pool")
_SAME = "The weights of {}; the tokenizer spells control tokens as Search-R1. Not trained apart."

LESSONS: Mapping[str, Lesson] = {
    "encoder": Lesson(lambda school: school.encoder.model, Exam.lists, _ALL, torch.float32),
    "ranker": Lesson(lambda school: school.ranker.model, Exam.ranker, _LARGE, torch.float32),
    "agent": Lesson(lambda school: school.agent, Exam.agent, _AGENT, torch.float32),
    "agent_tags": Lesson(
        lambda school: school.agent,
        Exam.agent,
        _AGENT,
        torch.float32,
        SEARCH_R1_TAGS,
        _SAME.format("agent"),
    ),
    "ranker_small": Lesson(lambda school: school.ranker_small.model, Exam.ranker, _SMALL),
    "agent_small": Lesson(lambda school: school.agent_small, Exam.agent, _AGENT_SMALL),
    "agent_tags_small": Lesson(
        lambda school: school.agent_small,
        Exam.agent,
        _AGENT_SMALL,
        spelling=SEARCH_R1_TAGS,
        note=_SAME.format("agent_small"),
    ),
    "shared": Lesson(lambda school: school.shared, Exam.both, (*_LARGE, "shared", "pool")),
    "simulator": Lesson(
        lambda school: school.simulator,
        Exam.simulator,
        (*_SMALL, "simulation", "simulator", "pool"),
    ),
    "cross_encoder": Lesson(
        lambda school: school.cross_encoder, Exam.scorer, (*_ALL, "small", "cross_encoder")
    ),
}
"""All shipped models by the name of their folder, in the order of their making."""


def build_base_models(
    folder: Path, recipe: Recipe, interface: Interface, report: Report, *, only: Sequence[str]
) -> dict[str, Any]:
    """Make the models in ``only`` under ``folder`` and record them in ``recipe.json``.

    Files and records of other models stay as they are. Returns the records of all models by name:
    the recipe, the measures and the sha256 of each file. Raises ValueError for an unknown name.
    """
    if unknown := sorted(set(only) - set(LESSONS)):
        raise ValueError(f"base_models: no model {unknown[0]!r}; there are {', '.join(LESSONS)}")
    school = School(recipe, interface, report)
    exam = Exam(recipe, school)
    path = folder / _RECORD
    for name in filter(set(only).__contains__, LESSONS):
        record = _make(LESSONS[name], folder / name, recipe, school, exam)
        write_json(path, _read_records(path) | {name: record})
    return _read_records(path)


def _read_records(path: Path) -> dict[str, Any]:
    records: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return records


def _make(
    lesson: Lesson, folder: Path, recipe: Recipe, school: School, exam: Exam
) -> dict[str, Any]:
    """Write a model as an ordinary Hugging Face folder. Returns its record."""
    # A copy, because another model may still start from these weights or share them.
    model = copy.deepcopy(lesson.weights(school)).to(lesson.dtype)
    model.save_pretrained(folder)
    length = model.config.max_position_embeddings
    save_tokenizer(school.codec.vocabulary, folder, max_length=length, spelling=lesson.spelling)
    constants = asdict(recipe)
    record = {
        "recipe": {key: constants[key] for key in lesson.reads},
        "measures": lesson.exam(exam, folder),
        "files": hash_files(folder),
    }
    return record | ({"note": lesson.note} if lesson.note else {})
