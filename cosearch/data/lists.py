"""Queries for the Fixed Ranker's lists, from published files (Appendix).

A source has questions with answers, or BEIR queries with a separate collection and judgements
(qrels). The golds of a judged query are the texts of its relevant passages. A passage contains its
own text. So the rule "a passage is relevant if it contains a gold" also works for judged queries:
it selects the judged passages, and any others with the same text.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cosearch.core.seeds import derive
from cosearch.core.types import Passage, Question
from cosearch.data.containers import decode_line, read_lines
from cosearch.data.corpus import write_corpus
from cosearch.data.passages import read_passages
from cosearch.data.questions import QuestionFile, load_questions
from cosearch.data.records import read_records
from cosearch.data.values import read_id, read_string
from cosearch.files.artifacts import Paths, read_json, write_jsonl
from cosearch.files.hashes import hash_path
from cosearch.params.blocks import Data


def write_lists(settings: Data, folder: Path, paths: Paths) -> dict[str, Any]:
    """Write the sampled queries of every source, and its collection if it has one.

    Returns the entry of each source for the manifest. Raises ValueError for a faulty file.
    """
    found = {}
    for name, source in settings.lists.items():
        path, collection = folder / source.path, None
        if source.collection is None or source.qrels is None:
            file = QuestionFile(name, path, None, source.source, source.format)
            questions = list(load_questions(file).questions)
            chosen = _sampled((q.id for q in questions), name, source.queries, settings.seed)
            questions = [question for question in questions if question.id in chosen]
        else:
            qrels = read_qrels(folder / source.qrels)
            texts = _texts(path, _sampled(qrels, name, source.queries, settings.seed))
            bodies = dict.fromkeys((p for query in texts for p in qrels[query]), "")
            passages = _noted(read_passages(folder / source.collection), bodies)
            collection = write_corpus(passages, paths.collection(name), source=source.collection)
            judged = ((query, name, text, qrels[query]) for query, text in texts.items())
            questions = [_judged(folder / source.qrels, bodies, *row) for row in judged]
        write_jsonl(paths.questions(f"lists/{name}"), (asdict(q) for q in questions))
        hashes = {file: hash_path(folder / file) for file in source.files()}
        found[name] = {"source": source.source, "rows": len(questions), "sha256": hashes}
        found[name]["collection"] = collection
    return found


def read_list_sources(paths: Paths) -> dict[str, bool]:
    """For each source of lists, True if it has a separate collection."""
    rows = read_json(paths.data / "manifest.json")["lists"]
    return {name: row["collection"] is not None for name, row in rows.items()}


def read_qrels(path: Path) -> dict[str, list[str]]:
    """Ids of relevant passages (score above 0) by query.

    Raises ValueError that names the faulty file and line.
    """
    found: dict[str, list[str]] = {}
    lines = (decode_line(path, number, line) for number, line in read_lines(path))
    rows = csv.DictReader(lines, delimiter="\t", strict=True)
    try:
        for row in rows:
            if _score(row) > 0:
                found.setdefault(row["query-id"], []).append(row["corpus-id"])
    except (KeyError, TypeError, csv.Error) as error:
        raise ValueError(f"{path}: line {rows.line_num}: not a judgement ({error!r})") from error
    if not found:
        raise ValueError(f"{path}: no passage is relevant to any query")
    return found


def _score(row: Mapping[str, str]) -> float:
    try:
        return float(row["score"])
    except ValueError as error:
        raise TypeError(f"score {row['score']!r}") from error


def _sampled(ids: Iterable[str], name: str, count: int, seed: int) -> set[str]:
    """The first ``count`` ids in seeded hash order. Their order in the file does not matter."""
    return set(sorted(ids, key=lambda id_: derive(seed, "lists", name, id_))[:count])


def _texts(path: Path, wanted: set[str]) -> dict[str, str]:
    """Texts of the wanted queries by id, in the order of the file."""
    found: dict[str, str] = {}
    for number, record in read_records(path):
        try:
            id_, text = read_id(record, ("_id", "id")), read_string(record.get("text"), "text")
        except ValueError as error:
            raise ValueError(f"{path}: row {number}: not a query: {error}") from error
        if id_ is not None and id_ in wanted:
            if not text.strip() or id_ in found:
                raise ValueError(f"{path}: row {number}: query {id_} is blank, or there twice")
            found[id_] = text.strip()
    if lost := sorted(wanted - found.keys()):
        raise ValueError(f"{path}: no query {lost[0]}, which the qrels name")
    return found


def _noted(passages: Iterable[Passage], bodies: dict[str, str]) -> Iterator[Passage]:
    """Pass the passages on, and store the texts of those with a key in ``bodies`` there.

    This includes passages that the corpus later drops as duplicates.
    """
    for passage in passages:
        if passage.id in bodies:
            bodies[passage.id] = passage.text
        yield passage


def _judged(
    path: Path, bodies: dict[str, str], query: str, name: str, text: str, relevant: list[str]
) -> Question:
    if lost := [passage for passage in relevant if not bodies[passage]]:
        raise ValueError(f"{path}: query {query} names passage {lost[0]}: no such passage")
    golds = tuple(dict.fromkeys(bodies[passage] for passage in relevant))
    return Question(query, name, text, golds, tuple(dict.fromkeys(relevant)))
