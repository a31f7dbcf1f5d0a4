"""Pseudo-relevance labels (Section 3.3)."""

from dataclasses import replace

import pytest

from cosearch.core.relevance import RelevanceRule
from cosearch.core.types import Passage
from tests.core.builders import TOKENS, candidates, question

SUBSTRING = replace(TOKENS, match="substring")
BOTH = pytest.mark.parametrize("rule", [TOKENS, SUBSTRING], ids=["tokens", "substring"])


def relevant(rule: RelevanceRule, text: str, *golds: str, title: str = "") -> bool:
    return rule.is_relevant(Passage("1", title, text), golds)


@BOTH
def test_any_gold_in_title_or_text_makes_a_passage_relevant(rule: RelevanceRule) -> None:
    assert relevant(rule, "It lies in OSLO, Norway.", "Bergen", "Oslo")
    assert relevant(rule, "a city", "Oslo", title="Oslo")
    assert not relevant(rule, "a city", "Oslo", title="Bergen")


def test_tokens_match_whole_words_only() -> None:
    assert not relevant(TOKENS, "a category", "cat")
    assert relevant(SUBSTRING, "a category", "cat")


def test_tokens_see_punctuation_that_substrings_drop() -> None:
    assert not relevant(TOKENS, "the US team", "U.S.")
    assert relevant(SUBSTRING, "the US team", "U.S.")


@BOTH
@pytest.mark.parametrize("gold", ["---", "The", "", " ", "!!!", "—", "。"])
def test_golds_without_words_match_nothing(rule: RelevanceRule, gold: str) -> None:
    assert not relevant(rule, "The --- !!! — 。 a", gold)


@BOTH
def test_truth_words_match_only_beside_another_gold(rule: RelevanceRule) -> None:
    text = "yes and no, true or false"
    for gold in ("yes", "No.", "TRUE", "false"):
        assert not relevant(rule, text, gold)
    assert not relevant(rule, text, "yes", "true")
    assert relevant(rule, text, "no", "Norway")
    assert not relevant(rule, text)


@BOTH
def test_marks_hide_matches_unless_they_are_folded(rule: RelevanceRule) -> None:
    folding = replace(rule, strip_marks=True)
    for text, gold in [("by Beyonce", "Beyoncé"), ("in 1,234 ways", "1234"), ("O’Hara", "O'Hara")]:
        assert relevant(folding, text, gold)
    assert not relevant(rule, "by Beyonce", "Beyoncé")
    assert relevant(rule, "by Beyonce\u0301", "Beyonce\u0301")


def test_composed_and_decomposed_spellings_are_one() -> None:
    assert relevant(TOKENS, "by Beyonce\u0301", "Beyonc\u00e9")


@BOTH
def test_short_golds_can_be_refused(rule: RelevanceRule) -> None:
    refusing = replace(rule, min_gold_chars=2)
    assert relevant(rule, "8 towns", "8")
    assert not relevant(refusing, "8 towns", "8 ")
    assert relevant(refusing, "88 towns", "88")


def test_labels_align_with_the_candidates() -> None:
    assert TOKENS.label(question("Oslo"), candidates("Oslo", "x", "in oslo")) == (True, False, True)
