"""Questions and corpus of a profile, from the generated world or from published files."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cosearch.core.types import Passage, Question
from cosearch.data.corpus import write_corpus
from cosearch.data.lists import write_lists
from cosearch.data.passages import read_passages
from cosearch.data.questions import (
    QuestionFile,
    count_quirks,
    load_questions,
    question_key,
    sample_questions,
)
from cosearch.data.records import read_records
from cosearch.data.world import build_world
from cosearch.data.world_questions import SPLITS
from cosearch.files.artifacts import Paths, read_json, write_json, write_jsonl
from cosearch.params.blocks import Data

WHOLE = frozenset({"bamboogle"})
"""Data sets that are too small to be sampled. They are used completely."""


def assemble(settings: Data, folder: Path, paths: Paths) -> dict[str, Any]:
    """Write questions, corpus, queries of lists and manifest of a profile. Returns the manifest.

    ``folder`` contains the published files. The generated world needs none.
    """
    passages: Iterable[Passage]
    if settings.source == "world":
        questions, passages, sources = _from_world(settings)
        origin = f"world of seed {settings.seed}"
    else:
        questions, sources = _from_files(settings, folder)
        passages = _read_corpus(settings, folder)
        origin = settings.corpus or ""
    corpus = write_corpus(passages, paths.corpus, source=origin)
    for split in SPLITS:
        write_jsonl(paths.questions(split), (asdict(q) for q in questions[split]))
    manifest = {
        "corpus": corpus,
        "sets": sources,
        "lists": write_lists(settings, folder, paths),
        "eval_fraction": settings.eval_fraction,
        "kinds": {name: counts.kind for name, counts in settings.sets.items()},
    }
    write_json(paths.data / "manifest.json", manifest)
    return manifest


def read_questions(paths: Paths, split: str) -> list[Question]:
    """Questions of a split, or of a source of lists (``lists/NAME``).

    Raises ValueError if ``assemble`` has not written them.
    """
    path = paths.questions(split)
    if not path.is_file():
        raise ValueError(f"{path}: no such file; run `dvc repro data` to make it")
    return [_question(row) for _, row in read_records(path)]


def read_data_manifest(paths: Paths) -> dict[str, Any]:
    """Kinds, counts and sources of all questions and of the corpus, as ``assemble`` wrote them."""
    manifest: dict[str, Any] = read_json(paths.data / "manifest.json")
    return manifest


def read_kinds(paths: Paths) -> dict[str, str]:
    """Kind (``single`` or ``multi``) of each data set."""
    kinds: dict[str, str] = read_data_manifest(paths)["kinds"]
    return kinds


def _question(row: Mapping[str, Any]) -> Question:
    return Question(
        row["id"], row["dataset"], row["text"], tuple(row["golds"]), tuple(row["supporting"])
    )


def _from_world(
    settings: Data,
) -> tuple[dict[str, list[Question]], tuple[Passage, ...], dict[str, Any]]:
    counts = {
        name: {split: getattr(row, split) or 0 for split in SPLITS}
        for name, row in settings.sets.items()
    }
    world = build_world(counts, settings.seed)
    questions = {
        split: [q for name in settings.sets for q in world.questions(name, split)]
        for split in SPLITS
    }
    sources = {
        name: {
            split: _world_record([q for q in questions[split] if q.dataset == name])
            for split in SPLITS
        }
        for name in settings.sets
    }
    return questions, world.passages, sources


def _world_record(rows: list[Question]) -> dict[str, Any]:
    """Manifest of a generated set, with the keys of a published set's manifest."""
    content = json.dumps([asdict(row) for row in rows], sort_keys=True)
    return {
        "source": "generated",
        "rows": len(rows),
        "sha256": hashlib.sha256(content.encode()).hexdigest(),
        **count_quirks(rows),
    }


def _from_files(settings: Data, folder: Path) -> tuple[dict[str, list[Question]], dict[str, Any]]:
    questions: dict[str, list[Question]] = {split: [] for split in SPLITS}
    sources: dict[str, Any] = {}
    for name, row in settings.sets.items():
        sources[name] = {}
        for split, file in row.files.items():
            loaded = load_questions(
                QuestionFile(name, folder / file.path, file.split, file.source, file.format)
            )
            kept: list[Question] = list(loaded.questions)
            if split == "test":
                kept = sample_questions(kept, settings.eval_fraction, whole=WHOLE)
            questions[split].extend(kept[: getattr(row, split)])
            sources[name][split] = dict(loaded.manifest)
    _count_shared(questions, sources)
    return questions, sources


def _count_shared(questions: Mapping[str, list[Question]], sources: dict[str, Any]) -> None:
    """Note in each manifest how many of its questions are asked in another split, too."""
    keys = {split: {question_key(q.text) for q in rows} for split, rows in questions.items()}
    for name, splits in sources.items():
        for split, manifest in splits.items():
            others = set().union(*(found for other, found in keys.items() if other != split))
            own = [q for q in questions[split] if q.dataset == name]
            manifest["in_other_splits"] = sum(question_key(q.text) in others for q in own)


def _read_corpus(settings: Data, folder: Path) -> Iterator[Passage]:
    if settings.corpus is None:
        raise ValueError("data.corpus: name the corpus file (below data.folder)")
    return read_passages(folder / settings.corpus)
