"""Row formats of the seven question-answering sets (Section 4.1): one record -> one ``SourceRow``.

``FORMATS`` is ordered from specific to general. Parameters may name the format of a file. Otherwise
it is the first format whose keys the first record has. Formats differ in the keys of question and
golds. Ids, splits and evidence are read by the same rules in all of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cosearch.data.golds import read_golds
from cosearch.data.records import Record
from cosearch.data.values import read_id, read_ids, read_split, read_string, read_table


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A parsed record. ``id`` and ``split`` are None if it has none."""

    text: str
    golds: tuple[str, ...]
    id: str | None = None
    supporting: tuple[str, ...] = ()
    split: str | None = None
    answer_id: str | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """A row format: the keys that identify it, and those of question and golds.

    ``answers`` are read in this order; only the first must be there. ``stray_bytes``: the published
    table has bytes that are not UTF-8.
    """

    keys: frozenset[str]
    question: str
    answers: tuple[str, ...]
    stray_bytes: bool = False

    def parse(self, record: Record) -> SourceRow:
        """The row of a record. Raises ValueError that names the faulty key."""
        extra, truth = _object(record.get("extra_info")), _object(record.get("reward_model"))
        answer_id = record.get("answer_id")
        return SourceRow(
            text=_question(record, extra, self.question),
            golds=_golds(truth or record, self.answers),
            id=read_id(record),
            supporting=_supporting(record),
            split=read_split(record.get("split", extra.get("split"))),
            answer_id=answer_id if isinstance(answer_id, str) else None,
        )


def sniff(record: Record) -> str | None:
    """Name of the first format whose keys ``record`` has, or None."""
    return next((name for name, form in FORMATS.items() if form.keys <= record.keys()), None)


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _question(record: Record, extra: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    if value is None and "prompt" in record:  # verl
        value = extra.get("question") or _last_message(record["prompt"])
    elif key not in record:
        raise ValueError(f"no key {key!r}")
    text = read_string(value, key).strip()
    if not text:
        raise ValueError(f"blank {key!r}")
    return text


def _last_message(prompt: object) -> object:
    if not isinstance(prompt, list) or not prompt:
        raise ValueError("no question, and 'prompt' has no message")
    return _object(prompt[-1]).get("content")


def _golds(record: Record, keys: tuple[str, ...]) -> tuple[str, ...]:
    if keys[0] not in record:
        raise ValueError(f"no key {keys[0]!r}")
    golds = _unique(gold for key in keys for gold in read_golds(record.get(key), key))
    if not any(gold.strip() for gold in golds):
        raise ValueError(f"no gold answer under {keys[0]!r}")
    return golds


def _supporting(record: Record) -> tuple[str, ...]:
    """Ids or titles of the evidence. FlashRAG keeps the publisher's keys below ``metadata``."""
    if "supporting_ids" in record:
        return read_ids(record["supporting_ids"], "supporting_ids")
    for source in (record, _object(record.get("metadata"))):
        if source.get("supporting_facts") is not None:
            return _titles(source, "supporting_facts")
        if source.get("paragraphs") is not None:
            return _titles(source, "paragraphs", "is_supporting")
    return ()


def _titles(source: Mapping[str, Any], key: str, flag: str | None = None) -> tuple[str, ...]:
    """Distinct titles of a table's rows, of those that have ``flag`` if it is given."""
    rows = [row for row in read_table(source[key], key) if flag is None or row.get(flag)]
    return _unique(read_string(row.get("title"), f"{key}.title") for row in rows)


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _format(question: str, answers: str, *more: str) -> Format:
    return Format(frozenset({question, answers, *more}), question, (answers, "answer_aliases"))


FORMATS: dict[str, Format] = {
    "unified": _format("question", "golden_answers", "supporting_ids", "split"),
    "verl": Format(frozenset({"prompt", "reward_model"}), "question", ("ground_truth",)),
    "flashrag": _format("question", "golden_answers"),
    "triviaqa": _format("Question", "Answer", "QuestionId"),
    "triviaqa_hub": _format("question", "answer", "question_id"),
    "popqa": _format("question", "possible_answers"),
    "musique": _format("question", "answer", "paragraphs"),
    "hotpotqa": _format("question", "answer", "supporting_facts"),
    "bamboogle": Format(
        frozenset({"Question", "Answer"}), "Question", ("Answer", "Answer 2"), stray_bytes=True
    ),
    "dpr": _format("question", "answers"),
    "nq_open": _format("question", "answer"),
}
