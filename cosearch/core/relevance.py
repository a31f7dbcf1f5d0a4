"""Pseudo-relevance: does a passage contain an answer? (Section 3.3; labels for Eqs. 5-7)"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from cosearch.core.text import contains_run, fold_marks, match_tokens, normalize
from cosearch.core.types import Candidate, Passage, Question

_TRUTH_WORDS = frozenset({"yes", "no", "true", "false"})


@dataclass(frozen=True, slots=True)
class RelevanceRule:
    """When a passage contains the answer. The paper says only "contains" (our choice: ``tokens``).

    ``match``: ``tokens`` (contiguous match tokens) or ``substring`` (normalised text).
    ``strip_marks``: fold accents and typographic variants. ``min_gold_chars``: golds whose
    normalised text has fewer characters match nothing, because "8" occurs in nearly every passage;
    0 keeps them all.
    """

    match: str
    strip_marks: bool
    min_gold_chars: int

    def matchable(self, golds: Sequence[str]) -> tuple[str, ...]:
        """The golds that may make a passage relevant: no truth words, nothing without a letter or
        digit, and no lone article, because these occur in passages that answer nothing."""
        return tuple(gold for gold in golds if self._may_match(gold))

    def is_relevant(self, passage: Passage, golds: Sequence[str]) -> bool:
        """True iff some matchable gold occurs in the passage's title and text."""
        body = f"{passage.title}\n{passage.text}"
        wanted = self.matchable(golds)
        if self.match == "substring":
            text = _words(body, self.strip_marks)
            return any(_words(gold, self.strip_marks) in text for gold in wanted)
        tokens = _tokens(body, self.strip_marks)
        return any(contains_run(tokens, _tokens(gold, self.strip_marks)) for gold in wanted)

    def label(self, question: Question, candidates: Sequence[Candidate]) -> tuple[bool, ...]:
        """Relevance of each candidate; any() of it is the paper's I_ans."""
        return tuple(self.is_relevant(c.passage, question.golds) for c in candidates)

    def _may_match(self, gold: str) -> bool:
        words, tokens = _words(gold, self.strip_marks), _tokens(gold, self.strip_marks)
        if words in _TRUTH_WORDS or _length(words) < self.min_gold_chars:
            return False
        searched = words if self.match == "substring" else "".join(tokens)
        return any(map(str.isalnum, searched)) and (bool(words) or len(tokens) > 1)


@lru_cache(maxsize=1 << 16)
def _tokens(text: str, strip_marks: bool) -> tuple[str, ...]:
    return tuple(match_tokens(fold_marks(text) if strip_marks else text))


@lru_cache(maxsize=1 << 16)
def _words(text: str, strip_marks: bool) -> str:
    return normalize(fold_marks(text) if strip_marks else text)


def _length(words: str) -> int:
    """Characters as a reader counts them: a letter and its accent are one."""
    return len(unicodedata.normalize("NFC", words))
