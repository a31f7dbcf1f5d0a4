"""How many real questions the rules for text move: labels of passages, and groups of queries.

    python -m benchmarks.text_rules FOLDER

FOLDER holds questions/NAME.jsonl for each data set, corpus.jsonl.gz and bm25_top50.tsv.gz, a run
with the passages that BM25 found for each question. The rules of this file are those that the
project had before its present ones (``cosearch.core.text``, ``cosearch.core.relevance``).
"""

import argparse
import re
import string
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import polars as pl

from cosearch.core.relevance import RelevanceRule
from cosearch.core.text import bag_f1, match_tokens, normalize, query_words, spaced
from cosearch.core.types import Passage
from cosearch.data.formats import SourceRow
from cosearch.data.passages import read_passages
from cosearch.data.questions import RowReader
from cosearch.data.records import read_records

DELTA = 0.8
NEAR = 0.5
"""Pairs of questions that agree less are far from ``DELTA`` under any rule and are not counted."""
PAPER = RelevanceRule(match="tokens", strip_marks=False, min_gold_chars=0)
RULES = {
    "tokens": PAPER,
    "tokens, marks folded": replace(PAPER, strip_marks=True),
    "substring": replace(PAPER, match="substring"),
}
TRUTH_WORDS = frozenset({"yes", "no", "true", "false"})

_BLANKS = str.maketrans(dict.fromkeys(string.punctuation, " "))
_FOLD = str.maketrans(
    dict(zip("\u2018\u2019\u201c\u201d\u2013\u2014\u2212", "''\"\"---", strict=True))
)
_COPY = str.maketrans({"'": "\u2019", '"': "\u201d"})
Words = Callable[[str], list[str]]


def words_before(query: str) -> list[str]:
    """Words for grouping: ASCII punctuation alone became a blank."""
    return re.sub(r"\b(a|an|the)\b", " ", query.lower().translate(_BLANKS)).split()


def fold_before(text: str) -> str:
    """Marks as they were folded."""
    kept = (c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c)[0] != "M")
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", "".join(kept).translate(_FOLD))


@dataclass(frozen=True, slots=True)
class RuleBefore:
    """The label of a passage as it was: truth words were dropped only if all golds were such."""

    rule: RelevanceRule

    def matchable(self, golds: Sequence[str]) -> tuple[str, ...]:
        """The golds that might match."""
        if all(normalize(gold) in TRUTH_WORDS for gold in golds):
            return ()
        return tuple(gold for gold in golds if any(map(str.isalnum, normalize(gold))))

    def is_relevant(self, passage: Passage, golds: Sequence[str]) -> bool:
        """True if a gold that may match occurs in title and text."""
        fold = fold_before if self.rule.strip_marks else str
        body, wanted = fold(f"{passage.title}\n{passage.text}"), self.matchable(golds)
        if self.rule.match == "substring":
            return any(normalize(fold(gold)) in normalize(body) for gold in wanted)
        tokens = match_tokens(body) if wanted else []
        return any(spaced(match_tokens(fold(gold))) in spaced(tokens) for gold in wanted)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one table of groups and one of labels."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    sets = {path.stem: read(path) for path in sorted((folder / "questions").glob("*.jsonl"))}
    print("| set | questions | with apostrophe or quotes | parted from their typographic copy,"
          " before | now | near pairs | moved |")  # fmt: skip
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, rows in sets.items():
        print(
            f"| {name} | {len(rows)} | " + " | ".join(map(str, groups(list(rows.values())))) + " |"
        )
    passages = {passage.id: passage for passage in read_passages(folder / "corpus.jsonl.gz")}
    found = read_run(folder / "bm25_top50.tsv.gz")
    print(
        f"\n| set | questions | passages | {' | '.join(f'{n}: questions, labels' for n in RULES)} |"
    )
    print(f"| --- | ---: | ---: | {' | '.join(['---:'] * len(RULES))} |")
    for name, rows in sets.items():
        asked = [(row.golds, [passages[i] for i in found[name, key]]) for key, row in rows.items()]
        moved = (labels(asked, rule) for rule in RULES.values())
        cells = [len(rows), sum(len(shown) for _, shown in asked), *moved]
        print(f"| {name} | " + " | ".join(map(str, cells)) + " |")


def read(path: Path) -> dict[str, SourceRow]:
    """Questions of a file by id."""
    reader = RowReader()
    rows = (reader.parse(number, record) for number, record in read_records(path))
    return {str(row.id): row for row in rows}


def read_run(path: Path) -> Mapping[tuple[str, str], list[str]]:
    """Ids of passages by data set and question."""
    names = dict.fromkeys(("dataset", "question_id", "passage_id"), pl.String)
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in pl.read_csv(path, separator="\t", schema_overrides=names).iter_rows(named=True):
        found[row["dataset"], row["question_id"]].append(row["passage_id"])
    return found


def groups(rows: Sequence[SourceRow]) -> tuple[int, int, int, int, int]:
    """Questions with a quote, those that part from their typographic copy before and now, pairs of
    questions that agree to ``NEAR`` or more before or now, and those that ``DELTA`` parts anew."""
    texts = list(dict.fromkeys(row.text for row in rows))
    quoted = [text for text in texts if text.translate(_COPY) != text]
    parted = [
        sum(bag_f1(words(text), words(text.translate(_COPY))) < DELTA for text in quoted)
        for words in (words_before, query_words)
    ]
    before, now = agreements(texts, words_before), agreements(texts, query_words)
    near = before.keys() | now.keys()
    moved = sum((before.get(p, 0.0) >= DELTA) != (now.get(p, 0.0) >= DELTA) for p in near)
    return len(quoted), parted[0], parted[1], len(near), moved


def agreements(texts: Sequence[str], words: Words) -> dict[tuple[int, int], float]:
    """Agreement of each pair of texts that agree to ``NEAR`` or more."""
    bags = [words(text) for text in texts]
    sets = [Counter(bag) for bag in bags]
    found = {}
    for left, right in combinations(range(len(bags)), 2):
        shared = (sets[left] & sets[right]).total()
        if 2 * shared >= NEAR * (len(bags[left]) + len(bags[right])):
            found[left, right] = bag_f1(bags[left], bags[right])
    return found


def labels(asked: Sequence[tuple[Sequence[str], Sequence[Passage]]], rule: RelevanceRule) -> str:
    """Questions with a passage whose label moves, and such labels."""
    before = RuleBefore(rule)
    moved = [
        sum(before.is_relevant(p, golds) != rule.is_relevant(p, golds) for p in passages)
        for golds, passages in asked
    ]
    return f"{sum(map(bool, moved))}, {sum(moved)}"


if __name__ == "__main__":
    main()
