"""Loads the seven data sets in their published formats, and draws the half sample (Section 4.1)."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from cosearch.core.text import YES_NO_WORDS, normalize
from cosearch.core.types import Question
from cosearch.data.formats import FORMATS, SourceRow, sniff
from cosearch.data.records import Record, read_records
from cosearch.data.values import SPLIT_NAMES, read_split, read_string, read_strings
from cosearch.files.hashes import hash_path

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
    row cannot be parsed, has no gold or contradicts earlier rows, or the split has no rows.
    """
    reader = RowReader(file.format)
    aliases = _aliases(file.aliases) if file.aliases else {}
    wanted = read_split(file.split) if file.split in SPLIT_NAMES else file.split
    questions: list[Question] = []
    for number, record in read_records(file.path, stray_bytes=reader.stray_bytes):
        try:
            row = reader.parse(number, record)
        except ValueError as error:
            raise ValueError(f"{file.path}: row {number}: {error}") from error
        if file.split is None or row.split is None or row.split == wanted:
            questions.append(_question(file, len(questions), row, aliases))
    if not questions:
        named = ", ".join(sorted(reader.splits)) or "no"
        raise ValueError(f"{file.path}: no rows of split {file.split!r} ({named} rows)")
    return QuestionSet(tuple(questions), _manifest(file, reader.name, questions))


class RowReader:
    """Reads the rows of one file and refuses what contradicts the rows before it.

    ``format`` of None means the format of the first row. ``splits`` are the splits that rows named.
    """

    def __init__(self, format: str | None = None) -> None:
        if format is not None and format not in FORMATS:
            raise ValueError(f"format {format!r} is none of {', '.join(FORMATS)}")
        self.name = format or ""
        self.splits: set[str] = set()
        self._ids: set[tuple[str | None, str]] = set()
        self._first: tuple[int, SourceRow] | None = None

    @property
    def stray_bytes(self) -> bool:
        """Whether the format was named whose table has bytes that are not UTF-8."""
        return bool(self.name) and FORMATS[self.name].stray_bytes

    def parse(self, number: int, record: Record) -> SourceRow:
        """Raises ValueError, without file and row, for a faulty row or key, for an id that another
        row of the split has, and for an id or split where the first row has none, or the reverse.
        """
        self.name = self.name or _sniffed(record)
        row = FORMATS[self.name].parse(record)
        self._first = self._first or (number, row)
        start, first = self._first
        for key in ("id", "split"):
            if (getattr(row, key) is None) != (getattr(first, key) is None):
                has = "no" if getattr(row, key) is None else "an" if key == "id" else "a"
                raise ValueError(f"{has} {key}, unlike row {start}")
        if row.id is not None and (row.split, row.id) in self._ids:
            raise ValueError(f"duplicate id {row.id!r}")
        if row.id is not None:
            self._ids.add((row.split, row.id))
        if row.split is not None:
            self.splits.add(row.split)
        return row


def question_key(text: str) -> str:
    """The same for questions that differ in case, punctuation, articles and blanks only."""
    return normalize(text) or text


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


def _sniffed(record: Record) -> str:
    name = sniff(record)
    if name is None:
        raise ValueError(f"no known format has keys {sorted(record)}")
    return name


def _question(
    file: QuestionFile, index: int, row: SourceRow, aliases: Mapping[str, Sequence[str]]
) -> Question:
    golds = dict.fromkeys([*row.golds, *aliases.get(row.answer_id or "", ())])
    # FlashRAG's convention for formats without ids: the split and the row, counted from 0.
    id_ = row.id if row.id is not None else f"{file.split or 'all'}_{index}"
    return Question(id_, file.dataset, row.text, tuple(golds), row.supporting)


def _aliases(path: Path) -> dict[str, tuple[str, ...]]:
    """2WikiMultihopQA's aliases, and demonyms where given, by Wikidata id."""
    table = {}
    for number, record in read_records(path):
        try:
            key = read_string(record.get("Q_id"), "Q_id")
            names = [read_strings(record.get(name), name) for name in ("aliases", "demonyms")]
        except ValueError as error:
            raise ValueError(f"{path}: row {number}: {error}") from error
        table[key] = tuple(chain.from_iterable(names))
    return table


def _manifest(file: QuestionFile, name: str, questions: Sequence[Question]) -> dict[str, Any]:
    return {
        "dataset": file.dataset,
        "source": file.source,
        "file": file.path.name,
        "sha256": hash_path(file.path),
        "format": name,
        "split": file.split,
        "rows": len(questions),
        "counts": count_quirks(questions) | count_faults(questions),
    }


def count_faults(questions: Sequence[Question]) -> dict[str, int]:
    """Counts of what was read although it is odd: questions that repeat an earlier one, and those
    with U+FFFD, the sign for bytes that were lost."""
    keys = Counter(question_key(question.text) for question in questions)
    lost = sum("\ufffd" in " ".join((q.text, *q.golds)) for q in questions)
    return {"repeated": keys.total() - len(keys), "lost_bytes": lost}


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
