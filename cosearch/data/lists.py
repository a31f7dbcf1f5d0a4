"""Queries of the Fixed Ranker's lists from published files (Appendix): questions with answers, or
BEIR queries with a collection of their own and judgements (qrels).

A judged query's golds are the texts of its relevant passages. A passage contains itself, so the one
rule "contains a gold" labels exactly the judged passages, and those that hold the same text.
"""

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cosearch.artifacts import Paths, read_json, write_jsonl
from cosearch.core.hashes import hash_file
from cosearch.core.seeds import derive
from cosearch.core.types import Passage, Question
from cosearch.data.corpus import read_passages, write_corpus
from cosearch.data.questions import QuestionFile, load_questions
from cosearch.data.records import read_records
from cosearch.data_schema import ListSource
from cosearch.schema import Data

_COLUMNS = ("query-id", "corpus-id", "score")


def write_lists(settings: Data, folder: Path, paths: Paths) -> dict[str, Any]:
    """Write the sampled queries of every source, and its collection where it has one; returns what
    the manifest says of each. Raises ValueError, in one line, for a file that is wrong."""
    found = {}
    for name, source in settings.lists.items():
        read = _judged if source.qrels else _answered
        questions, collection = read(name, source, settings.seed, folder, paths)
        write_jsonl(paths.questions(f"lists/{name}"), (asdict(q) for q in questions))
        found[name] = {
            "source": source.source,
            "rows": len(questions),
            "sha256": {file: hash_file(folder / file) for file in source.files()},
            "collection": collection,
        }
    return found


def read_list_sources(paths: Paths) -> dict[str, bool]:
    """Sources of lists by name: whether each has a collection of its own."""
    rows = read_json(paths.data / "manifest.json")["lists"]
    return {name: row["collection"] is not None for name, row in rows.items()}


def read_qrels(path: Path) -> dict[str, list[str]]:
    """Ids of relevant passages (score above 0) by query. Raises ValueError naming file and line."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    found: dict[str, list[str]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", strict=True)
        try:
            for row in rows:
                query, passage, score = (row[column] for column in _COLUMNS)
                if not query or not passage:
                    raise ValueError("a blank id")
                if float(score) > 0:
                    found.setdefault(query, []).append(passage)
        except (KeyError, TypeError, ValueError, csv.Error) as error:
            raise ValueError(
                f"{path}: line {rows.line_num}: not a judgement ({error!r})"
            ) from error
    if not found:
        raise ValueError(f"{path}: no passage is relevant to any query")
    return found


def _sampled(ids: Iterable[str], name: str, count: int, seed: int) -> set[str]:
    """The first ``count`` ids in seeded hash order, which their places in a file do not change."""
    return set(sorted(ids, key=lambda id_: derive(seed, "lists", name, id_))[:count])


def _answered(
    name: str, source: ListSource, seed: int, folder: Path, paths: Paths
) -> tuple[list[Question], None]:
    file = QuestionFile(name, folder / source.path, None, source.source, source.format)
    questions = load_questions(file).questions
    chosen = _sampled((q.id for q in questions), name, source.queries, seed)
    return [question for question in questions if question.id in chosen], None


def _judged(
    name: str, source: ListSource, seed: int, folder: Path, paths: Paths
) -> tuple[list[Question], dict[str, Any]]:
    judged = folder / str(source.qrels)
    qrels = read_qrels(judged)
    chosen = _sampled(qrels, name, source.queries, seed)
    queries = _queries(folder / source.path, chosen)
    bodies: dict[str, str] = dict.fromkeys((p for query in queries for p in qrels[query]), "")
    passages = _noted(read_passages(folder / str(source.collection)), bodies)
    record = write_corpus(passages, paths.collection(name), source=str(source.collection))
    for query in queries:
        if lost := [passage for passage in qrels[query] if not bodies[passage]]:
            raise ValueError(
                f"{judged}: query {query} names passage {lost[0]}, which is not in"
                f" {source.collection}"
            )
    questions = [
        Question(
            query,
            name,
            text,
            tuple(dict.fromkeys(bodies[passage] for passage in qrels[query])),
            tuple(dict.fromkeys(qrels[query])),
        )
        for query, text in queries.items()
    ]
    return questions, record


def _queries(path: Path, wanted: Collection[str]) -> Mapping[str, str]:
    """Texts of the wanted queries by id, in file order."""
    found: dict[str, str] = {}
    for number, record in read_records(path):
        try:
            id_, text = str(record["_id"]), record["text"].strip()
        except (KeyError, AttributeError) as error:
            raise ValueError(f"{path}: row {number}: not a query ({error!r})") from error
        if id_ in found or (id_ in wanted and not text):
            raise ValueError(f"{path}: row {number}: query {id_} is blank or there twice")
        if id_ in wanted:
            found[id_] = text
    if lost := sorted(set(wanted) - found.keys()):
        raise ValueError(f"{path}: no query {lost[0]}, which the qrels name")
    return found


def _noted(passages: Iterable[Passage], bodies: dict[str, str]) -> Iterator[Passage]:
    """The passages, with the texts of those that ``bodies`` asks for noted in it: one that the
    corpus drops as a double is noted too."""
    for passage in passages:
        if passage.id in bodies:
            bodies[passage.id] = passage.text
        yield passage
