"""Pseudo-relevance: does a passage contain an answer? (Section 3.3; labels for Eqs. 5-7)"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from cosearch.core.text import KEPT_TEXTS, fold_marks, match_tokens, normalize, spaced
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
        return _matchable(self, tuple(golds))

    def is_relevant(self, passage: Passage, golds: Sequence[str]) -> bool:
        """True iff some matchable gold occurs in the passage's title and text."""
        searched = _searched(self, f"{passage.title}\n{passage.text}")
        return any(_searched(self, gold) in searched for gold in self.matchable(golds))

    def label(self, question: Question, candidates: Sequence[Candidate]) -> tuple[bool, ...]:
        """Relevance of each candidate; any() of it is the paper's I_ans."""
        return tuple(self.is_relevant(c.passage, question.golds) for c in candidates)

    def may_match(self, gold: str) -> bool:
        """Whether ``gold`` may make a passage relevant."""
        text = self.folded(gold)
        words, tokens = normalize(text), match_tokens(text)
        if words in _TRUTH_WORDS or _length(words) < self.min_gold_chars:
            return False
        searched = words if self.match == "substring" else "".join(tokens)
        return any(map(str.isalnum, searched)) and (bool(words) or len(tokens) > 1)

    def folded(self, text: str) -> str:
        """``text`` without marks, where the rule strips them."""
        return fold_marks(text) if self.strip_marks else text


@lru_cache(maxsize=KEPT_TEXTS)
def _matchable(rule: RelevanceRule, golds: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(gold for gold in golds if rule.may_match(gold))


@lru_cache(maxsize=KEPT_TEXTS)
def _searched(rule: RelevanceRule, text: str) -> str:
    """The form of a passage or a gold in which one is searched for the other."""
    folded = rule.folded(text)
    return normalize(folded) if rule.match == "substring" else spaced(match_tokens(folded))


def _length(words: str) -> int:
    """Characters as a reader counts them: a letter and its accent are one."""
    return len(unicodedata.normalize("NFC", words))
