"""Pseudo-relevance labels (Section 3.3)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.relevance import RelevanceRule
from cosearch.core.types import Passage
from tests.core.builders import TOKENS, candidates, question

SUBSTRING = replace(TOKENS, match="substring")
RULES = st.builds(
    RelevanceRule,
    match=st.sampled_from(["tokens", "substring"]),
    strip_marks=st.booleans(),
    min_gold_chars=st.sampled_from([0, 2]),
)
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
@pytest.mark.parametrize("gold", ["---", "The", "", " ", "!!!", "—", "。", ")", "\u0301"])
def test_golds_without_words_match_nothing(rule: RelevanceRule, gold: str) -> None:
    assert not relevant(rule, "The --- !!! — 。 a", gold)


@BOTH
def test_truth_words_match_nothing_even_beside_another_gold(rule: RelevanceRule) -> None:
    text = "yes and no, true or false"
    for gold in ("yes", "No.", "TRUE", "false"):
        assert not relevant(rule, text, gold)
    assert not relevant(rule, text, "yes", "true")
    assert not relevant(rule, text, "no", "Norway")
    assert relevant(rule, "Norway, yes", "no", "Norway")
    assert not relevant(rule, text)


@BOTH
def test_marks_hide_matches_unless_they_are_folded(rule: RelevanceRule) -> None:
    folding = replace(rule, strip_marks=True)
    for text, gold in [("by Beyonce", "Beyoncé"), ("in 1,234 ways", "1234"), ("O’Hara", "O'Hara")]:
        assert relevant(folding, text, gold)
    assert not relevant(folding, "an '\u02bc' sign", "\u02bc")  # it folds to nothing
    assert not relevant(rule, "by Beyonce", "Beyoncé")
    assert relevant(rule, "by Beyonce\u0301", "Beyonce\u0301")


@pytest.mark.parametrize("gold", ["A+", "The The", "A.", "THE THE"])
def test_golds_of_articles_match_their_tokens(gold: str) -> None:
    assert relevant(TOKENS, f"It was ({gold}) that year", gold)
    assert not relevant(TOKENS, "the a an", gold)
    assert TOKENS.matchable([gold]) == (gold,)
    assert SUBSTRING.matchable([gold]) == ()


def test_composed_and_decomposed_spellings_are_one() -> None:
    assert relevant(TOKENS, "by Beyonce\u0301", "Beyonc\u00e9")


@BOTH
def test_short_golds_can_be_refused(rule: RelevanceRule) -> None:
    refusing = replace(rule, min_gold_chars=2)
    assert relevant(rule, "8 towns", "8")
    assert not relevant(refusing, "8 towns", "8 ")
    assert relevant(refusing, "88 towns", "88")
    assert not relevant(refusing, "the 8. town", "the 8.")
    assert not relevant(replace(TOKENS, min_gold_chars=2), "e\u0301", "e\u0301")


TEXTS = st.text(
    st.sampled_from("aA8é \u0301’'“,-–\u00ad)+\u02bcthe") | st.characters(), max_size=12
)


@given(golds=st.lists(TEXTS, max_size=4), text=TEXTS, rule=RULES)
def test_each_gold_counts_by_itself(golds: list[str], text: str, rule: RelevanceRule) -> None:
    alone = [relevant(rule, text, gold) for gold in golds]
    assert relevant(rule, text, *golds) == any(alone)
    assert rule.matchable(golds) == tuple(gold for gold in golds if rule.matchable([gold]))


@given(gold=TEXTS, rule=RULES)
def test_a_matchable_gold_finds_itself_and_is_not_in_an_empty_passage(
    gold: str, rule: RelevanceRule
) -> None:
    assert relevant(rule, gold, gold) == bool(rule.matchable([gold]))
    assert not relevant(rule, "", gold)


def test_labels_align_with_the_candidates() -> None:
    assert TOKENS.label(question("Oslo"), candidates("Oslo", "x", "in oslo")) == (True, False, True)
