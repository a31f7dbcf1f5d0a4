"""Loads the seven data sets in their published formats, and draws the half sample (Section 4.1)."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from cosearch.core.text import YES_NO_WORDS, normalize
from cosearch.core.types import Question
from cosearch.data.formats import FORMATS, Format, SourceRow, sniff
from cosearch.data.records import Numbered, Record, read_json_lines, read_records
from cosearch.files.hashes import hash_file

_SHORT_GOLD = 3
_SHEET_DATE = re.compile(r"\d{1,2}-[A-Z][a-z]{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class QuestionFile:
    """A file to load.

    ``split`` selects rows if the format has a split (None selects all), and is only a label
    otherwise. ``source`` names the origin and revision. A ``format`` of None means the format of
    the first record. ``aliases`` is the path of 2WikiMultihopQA's ``id_aliases.json``.
    """

    dataset: str
    path: Path
    split: str | None
    source: str
    format: str | None = None
    aliases: Path | None = None


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """Questions in the order of their file, and a manifest with the hash of that file."""

    questions: tuple[Question, ...]
    manifest: Mapping[str, Any]


def load_questions(file: QuestionFile) -> QuestionSet:
    """Read one set.

    Raises ValueError, in one line with file, row and key, if the file is missing or truncated, a
    row cannot be parsed or has no gold, an id occurs twice, or the split has no rows.
    """
    name, rows = _rows(file)
    aliases = _aliases(file.aliases) if file.aliases else {}
    questions: dict[str, Question] = {}
    for index, (number, row) in enumerate(rows):
        question = _question(file, index, number, row, aliases)
        if question.id in questions:
            raise ValueError(f"{file.path}: row {number}: duplicate id {question.id!r}")
        questions[question.id] = question
    if not questions:
        raise ValueError(f"{file.path}: no rows of split {file.split!r}")
    kept = tuple(questions.values())
    return QuestionSet(kept, _manifest(file, name, kept))


def sample_questions(
    questions: Sequence[Question], fraction: float, *, whole: frozenset[str] = frozenset()
) -> list[Question]:
    """The ``eval_fraction`` sample: of each data set the first ``fraction`` of ids in hash order.

    A larger sample contains every smaller one, and the order of the file does not matter. Data sets
    in ``whole`` are kept completely (Bamboogle has 125 rows). The result keeps the order of
    ``questions``. Raises ValueError if ``fraction`` is not in (0, 1].
    """
    if not 0.0 < fraction <= 1.0:
        raise ValueError(f"eval_fraction: {fraction} is not in (0, 1]")
    sizes = Counter(question.dataset for question in questions)
    kept: set[tuple[str, str]] = set()
    for dataset, size in sizes.items():
        ids = (question.id for question in questions if question.dataset == dataset)
        limit = size if dataset in whole else max(1, round(size * fraction))
        ordered = sorted(ids, key=partial(order_key, dataset))
        kept.update((dataset, id_) for id_ in ordered[:limit])
    return [question for question in questions if (question.dataset, question.id) in kept]


def order_key(dataset: str, id_: str) -> str:
    """Sort key of a question. It depends on data set and id only, not on the place in a file."""
    return hashlib.sha256(f"cosearch-eval|{dataset}|{id_}".encode()).hexdigest()


def _rows(file: QuestionFile) -> tuple[str, Iterator[tuple[int, SourceRow]]]:
    records = read_records(file.path)
    first = next(records, None)
    if first is None:
        raise ValueError(f"{file.path}: no rows")
    name = file.format or sniff(first[1])
    if name is None:
        raise ValueError(f"{file.path}: row 1: no known format has keys {sorted(first[1])}")
    if name not in FORMATS:
        raise ValueError(f"{file.path}: format {name!r} is none of {', '.join(FORMATS)}")
    return name, _parsed(file, FORMATS[name], chain([first], records))


def _parsed(file: QuestionFile, form: Format, records: Numbered) -> Iterator[tuple[int, SourceRow]]:
    for number, record in records:
        row = _parse(file.path, number, form, record)
        if file.split is None or row.split is None or row.split == file.split:
            yield number, row


def _parse(path: Path, number: int, form: Format, record: Record) -> SourceRow:
    try:
        return form.parse(record)
    except KeyError as error:
        raise ValueError(f"{path}: row {number}: no key {error}") from error
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{path}: row {number}: {error}") from error


def _question(
    file: QuestionFile, index: int, number: int, row: SourceRow, aliases: Mapping[str, list[str]]
) -> Question:
    if not any(gold.strip() for gold in row.golds):
        raise ValueError(f"{file.path}: row {number}: no gold answer")
    golds = dict.fromkeys([*row.golds, *aliases.get(row.answer_id or "", ())])
    # FlashRAG's convention for formats without ids: the split and the row, counted from 0.
    id_ = row.id if row.id is not None else f"{file.split or 'all'}_{index}"
    return Question(id_, file.dataset, row.text, tuple(golds), row.supporting)


def _aliases(path: Path) -> dict[str, list[str]]:
    """2WikiMultihopQA's aliases, and demonyms where given, by Wikidata id."""
    table: dict[str, list[str]] = {}
    for number, record in read_json_lines(path):
        try:
            table[record["Q_id"]] = [*record["aliases"], *record.get("demonyms", ())]
        except KeyError as error:
            raise ValueError(f"{path}: row {number}: no key {error}") from error
    return table


def _manifest(file: QuestionFile, name: str, questions: Sequence[Question]) -> dict[str, Any]:
    return {
        "dataset": file.dataset,
        "source": file.source,
        "file": file.path.name,
        "sha256": hash_file(file.path),
        "format": name,
        "split": file.split,
        "rows": len(questions),
        "counts": count_quirks(questions),
    }


def count_quirks(questions: Sequence[Question]) -> dict[str, int]:
    """Counts of unusual questions.

    Counted are questions with only yes/no golds, with a gold that is empty after normalisation, has
    fewer than three characters or is a spreadsheet date, and with remains of CSV quoting.
    """
    checks = {
        "yes_no": lambda q: all(normalize(gold) in YES_NO_WORDS for gold in q.golds),
        "empty_golds": lambda q: any(not normalize(gold) for gold in q.golds),
        "short_golds": lambda q: any(len(gold.strip()) < _SHORT_GOLD for gold in q.golds),
        "sheet_dates": lambda q: any(_SHEET_DATE.fullmatch(gold) for gold in q.golds),
        "quoted_text": lambda q: q.text.startswith('"') and '""' in q.text,
    }
    return {name: sum(map(check, questions)) for name, check in checks.items()}
