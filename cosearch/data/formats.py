"""Row formats of the seven question-answering sets (Section 4.1): one record -> one ``SourceRow``.

``FORMATS`` is ordered from specific to general. Parameters may name the format of a file. Otherwise
it is the first format whose keys the first record has. Golds are those of the publisher, with
aliases.
"""

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cosearch.data.records import Record


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A parsed record. ``id`` and ``split`` are None if the format has none."""

    text: str
    golds: tuple[str, ...]
    id: str | None = None
    supporting: tuple[str, ...] = ()
    split: str | None = None
    answer_id: str | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """A row format: the keys that identify it, and its parser (raises KeyError, ValueError)."""

    keys: frozenset[str]
    parse: Callable[[Record], SourceRow]


def sniff(record: Record) -> str | None:
    """Name of the first format whose keys ``record`` has, or None."""
    return next((name for name, form in FORMATS.items() if form.keys <= record.keys()), None)


def _unified(record: Record) -> SourceRow:
    return SourceRow(
        text=_text(record, "question"),
        golds=_unique([*record["golden_answers"], *record["answer_aliases"]]),
        id=str(record["id"]),
        supporting=_unique(record["supporting_ids"]),
        split=record["split"],
    )


def _verl(record: Record) -> SourceRow:
    """Search-R1 and verl rows; ``ground_truth`` is a string or ``{"target": [...]}``."""
    truth = record["reward_model"]["ground_truth"]
    extra = record.get("extra_info") or {}
    question = record.get("question") or extra.get("question") or record["prompt"][-1]["content"]
    return SourceRow(
        text=_text({"question": question}, "question"),
        golds=_answers(truth["target"] if isinstance(truth, Mapping) else truth),
        id=record.get("id"),
    )


def _flashrag(record: Record) -> SourceRow:
    return SourceRow(
        _text(record, "question"), _answers(record["golden_answers"]), str(record["id"])
    )


def _triviaqa(record: Record) -> SourceRow:
    answer = record["Answer"]
    return SourceRow(
        text=_text(record, "Question"),
        golds=_unique([answer["Value"], *answer.get("Aliases", [])]),
        id=str(record["QuestionId"]),
    )


def _popqa(record: Record) -> SourceRow:
    """PopQA's table. The JSON variant also has paragraphs."""
    return SourceRow(
        text=_text(record, "question"),
        golds=_answers(_literal(record["possible_answers"])),
        id=str(record["id"]),
        supporting=_supporting_titles(record.get("paragraphs", ())),
    )


def _musique(record: Record) -> SourceRow:
    return SourceRow(
        text=_text(record, "question"),
        golds=_unique([record["answer"], *record.get("answer_aliases", ())]),
        id=str(record["id"]),
        supporting=_supporting_titles(record["paragraphs"]),
    )


def _hotpotqa(record: Record) -> SourceRow:
    """HotpotQA and 2WikiMultihopQA. Only the latter has ``answer_id``, a key of its aliases."""
    return SourceRow(
        text=_text(record, "question"),
        golds=_answers(record["answer"]),
        id=str(record["_id"]),
        supporting=_unique(title for title, _ in record["supporting_facts"]),
        answer_id=record.get("answer_id"),
    )


def _bamboogle(record: Record) -> SourceRow:
    second = record.get("Answer 2", "")
    return SourceRow(
        _text(record, "Question"), _unique([record["Answer"], *([second] if second else [])])
    )


def _dpr(record: Record) -> SourceRow:
    return SourceRow(_text(record, "question"), _answers(_literal(record["answers"])))


def _question_answer(record: Record) -> SourceRow:
    """NQ-open and similar sets. ``answer`` is a list, a string, or a list written as a string."""
    answer = record["answer"]
    if isinstance(answer, str) and answer.startswith("["):
        answer = _literal(answer)
    return SourceRow(_text(record, "question"), _answers(answer))


def _text(record: Record, key: str) -> str:
    value = record[key]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"blank {key!r}")
    return value.strip()


def _answers(value: Any) -> tuple[str, ...]:
    return _unique([value] if isinstance(value, str) else value)


def _literal(cell: str) -> list[str]:
    """Parse a Python (or JSON) list that is written as text. Raises ValueError for other text."""
    try:
        value = ast.literal_eval(cell)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"not a list literal: {cell[:60]!r}") from error
    if not isinstance(value, list):
        raise ValueError(f"not a list literal: {cell[:60]!r}")
    return value


def _unique(values: Iterable[Any]) -> tuple[str, ...]:
    kept = tuple(dict.fromkeys(values))
    if not all(isinstance(value, str) for value in kept):
        raise ValueError(f"an answer or title is not a string: {kept!r:.60}")
    return kept


def _supporting_titles(paragraphs: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    return _unique(part["title"] for part in paragraphs if part.get("is_supporting"))


def _format(parse: Callable[[Record], SourceRow], *keys: str) -> Format:
    return Format(frozenset(keys), parse)


FORMATS: dict[str, Format] = {
    "unified": _format(_unified, "id", "question", "golden_answers", "supporting_ids", "split"),
    "verl": _format(_verl, "prompt", "reward_model"),
    "flashrag": _format(_flashrag, "id", "question", "golden_answers"),
    "triviaqa": _format(_triviaqa, "Question", "QuestionId", "Answer"),
    "popqa": _format(_popqa, "id", "question", "possible_answers"),
    "musique": _format(_musique, "id", "question", "answer", "paragraphs"),
    "hotpotqa": _format(_hotpotqa, "_id", "question", "answer", "supporting_facts"),
    "bamboogle": _format(_bamboogle, "Question", "Answer"),
    "dpr": _format(_dpr, "question", "answers"),
    "nq_open": _format(_question_answer, "question", "answer"),
}
