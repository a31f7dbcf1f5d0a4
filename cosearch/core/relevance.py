"""Pseudo-relevance: does a passage contain an answer? (Section 3.3; labels for Eqs. 5-7)"""

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
    ``strip_marks``: fold accents and typographic variants. ``min_gold_chars``: shorter golds match
    nothing, because "A" or "8" occur in nearly every passage; 0 keeps them all.
    """

    match: str
    strip_marks: bool
    min_gold_chars: int

    def matchable(self, golds: Sequence[str]) -> tuple[str, ...]:
        """The golds that may make a passage relevant; none when all of them are truth words."""
        if all(normalize(gold) in _TRUTH_WORDS for gold in golds):
            return ()
        return tuple(
            gold
            for gold in golds
            if any(char.isalnum() for char in normalize(gold))
            and len(gold.strip()) >= self.min_gold_chars
        )

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


@lru_cache(maxsize=1 << 16)
def _tokens(text: str, strip_marks: bool) -> tuple[str, ...]:
    return tuple(match_tokens(fold_marks(text) if strip_marks else text))


@lru_cache(maxsize=1 << 16)
def _words(text: str, strip_marks: bool) -> str:
    return normalize(fold_marks(text) if strip_marks else text)
