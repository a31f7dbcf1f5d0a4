"""Text measures (Section 3)."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.text import (
    answer_f1,
    bag_f1,
    contains_run,
    exact_match,
    fold_marks,
    match_tokens,
    normalize,
    query_words,
    token_f1,
)

RULES = pytest.mark.parametrize("rule", ["bag", "squad"])
BAGS = st.lists(st.sampled_from("abcdef"), max_size=12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Beatles!", "beatles"),
        ("An apple a day", "apple day"),
        ("U.S.A.", "usa"),
        ("theatre another", "theatre another"),
        ("---", ""),
        ("The", ""),
        ("don't\tstop", "dont stop"),
    ],
)
def test_normalize(text: str, expected: str) -> None:
    assert normalize(text) == expected


def test_query_punctuation_becomes_a_blank() -> None:
    assert query_words("Spider-Man's the_author?") == ["spider", "man", "s", "author"]
    assert normalize("Spider-Man's") == "spidermans"


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("a b c d", "a b c d", 1.0),
        ("one two three four", "one two three five", 0.75),
        ("one two three four five", "one two three four six", 0.8),
        ("one one", "one", 2 / 3),
        ("", "", 1.0),
        ("---", "The", 1.0),
        ("", "one", 0.0),
        ("one", "two", 0.0),
        ("France defeated Germany", "Germany defeated France", 1.0),
    ],
)
def test_token_f1(left: str, right: str, expected: float) -> None:
    assert token_f1(left, right) == expected


def test_f1_is_exact_where_the_harmonic_mean_is_not() -> None:
    precision, recall = 6 / 7, 6 / 8
    assert 2 * precision * recall / (precision + recall) < 0.8
    assert bag_f1("abcdefg", "abcdefxy") == 0.8


@given(BAGS, BAGS)
def test_f1_is_symmetric_bounded_and_one_for_equal_bags_only(
    left: list[str], right: list[str]
) -> None:
    value = bag_f1(left, right)
    assert value == bag_f1(right, left)
    assert 0.0 <= value <= 1.0
    assert (value == 1.0) == (sorted(left) == sorted(right))


def test_answer_f1_takes_the_best_alias() -> None:
    assert answer_f1("New York", ["Boston", "New York City"], yes_no_rule="bag") == 0.8
    assert answer_f1("New York", [], yes_no_rule="bag") == 0.0


@pytest.mark.parametrize(
    ("prediction", "gold", "bag", "squad"),
    [
        ("no", "no", 1.0, 1.0),
        ("no doubt", "no", 2 / 3, 0.0),
        ("no", "no doubt", 2 / 3, 0.0),
        ("yes", "no", 0.0, 0.0),
        ("noanswer here", "noanswer", 2 / 3, 0.0),
        ("red car", "car", 2 / 3, 2 / 3),
    ],
)
def test_yes_no_rules(prediction: str, gold: str, bag: float, squad: float) -> None:
    assert answer_f1(prediction, [gold], yes_no_rule="bag") == bag
    assert answer_f1(prediction, [gold], yes_no_rule="squad") == squad


WORDS = st.lists(st.sampled_from(["yes", "no", "the", "Oslo", "oslo!", "-", "a", ""])).map(" ".join)


@RULES
@given(prediction=WORDS, golds=st.lists(WORDS, max_size=3))
def test_exact_match_never_exceeds_f1(rule: str, prediction: str, golds: list[str]) -> None:
    value = answer_f1(prediction, golds, yes_no_rule=rule)
    assert exact_match(prediction, golds) <= value <= 1.0


def test_exact_match_is_equality_not_containment() -> None:
    assert exact_match("the Oslo.", ["Bergen", "oslo"]) == 1.0
    assert exact_match("Oslo in Norway", ["Oslo"]) == 0.0
    assert exact_match("Oslo", []) == 0.0


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("U.S.A., 1984", ["u", ".", "s", ".", "a", ".", ",", "1984"]),
        ("Straße", ["strasse"]),
        ("Beyonc\u00e9", ["beyonce\u0301"]),
        ("a\u200bb\x00c\u00a0d", ["a", "b", "c", "d"]),
        ("--", ["-", "-"]),
        ("", []),
    ],
)
def test_match_tokens(text: str, tokens: list[str]) -> None:
    assert match_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Beyoncé", "Beyonce"),
        ("“x” ‘y’", "\"x\" 'y'"),
        ("1990–1995", "1990-1995"),
        ("1,234,567 and 1,23", "1234567 and 1,23"),
        ("12,3456", "12,3456"),
    ],
)
def test_fold_marks(text: str, folded: str) -> None:
    assert fold_marks(text) == folded


@given(st.text())
def test_tokens_hold_no_blanks_and_lose_no_letter(text: str) -> None:
    tokens = match_tokens(text)
    assert all(token and not any(char.isspace() for char in token) for token in tokens)
    kept = unicodedata.normalize("NFD", text).casefold()
    assert [c for c in "".join(tokens) if c.isalnum()] == [c for c in kept if c.isalnum()]
    assert match_tokens(" ".join(tokens)) == tokens


@given(st.lists(st.sampled_from("ab"), max_size=8), st.lists(st.sampled_from("ab"), max_size=3))
def test_contains_run_agrees_with_its_definition(tokens: list[str], run: list[str]) -> None:
    windows = [tokens[start : start + len(run)] for start in range(len(tokens))]
    assert contains_run(tokens, run) == (bool(run) and run in windows)


def test_contains_run_respects_token_edges() -> None:
    assert not contains_run(["cats", "dog"], ["cat"])
    assert not contains_run(["cat", "dogs"], ["cat", "dog"])
