"""Text measures (Section 3)."""

import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.text import (
    answer_f1,
    bag_f1,
    exact_match,
    fold_marks,
    match_tokens,
    normalize,
    query_words,
    spaced,
    token_f1,
)

SIGNS = [c for c in map(chr, range(0x30000)) if unicodedata.category(c)[0] in "PS"]
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
    assert query_words("Spider\u2011Man\u2019s \u201cthe\u201d\u0092x") == [
        "spider",
        "man",
        "s",
        "x",
    ]
    assert normalize("Spider-Man's") == "spidermans"


@given(st.lists(st.text("aAnthe8é", min_size=1), min_size=1), st.sampled_from(SIGNS))
def test_every_sign_between_the_words_of_a_query_is_a_blank(words: list[str], sign: str) -> None:
    assert query_words(sign.join(words)) == query_words(" ".join(words))


@given(st.text(), st.sampled_from("\u00ad\u200b\u200d\u2060\ufeff"), st.data())
def test_words_of_a_query_do_not_depend_on_its_spelling(
    query: str, format_char: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(query)))
    words = query_words(query)
    assert query_words(query[:at] + format_char + query[at:]) == words
    assert query_words(unicodedata.normalize("NFD", query)) == words
    assert query_words(unicodedata.normalize("NFC", query)) == words
    assert query_words(" ".join(words)) == words


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_words_of_a_plain_query_are_those_of_the_paper(query: str) -> None:
    blanks = str.maketrans(dict.fromkeys(string.punctuation, " "))
    words = query.lower().translate(blanks).split()
    assert query_words(query) == [word for word in words if word not in {"a", "an", "the"}]


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
        ("1234,567", "1234,567"),
        ("1\u202f234\u202f567 km, 1\u2019234.5", "1234567 km, 1234.5"),
        ("Nor\u00adway\u200d", "Norway"),
        ("\u201ex\u201a \u00aby\u203a \u2032\u02bb", "\"x' \"y' ''"),
    ],
)
def test_fold_marks(text: str, folded: str) -> None:
    assert fold_marks(text) == folded


@pytest.mark.parametrize("dash", [chr(code) for code in (*range(0x2010, 0x2016), 0x2212, 0xFF0D)])
def test_every_dash_is_folded(dash: str) -> None:
    assert fold_marks(f"1990{dash}95") == "1990-95"


@given(st.text())
def test_folding_leaves_nothing_to_fold(text: str) -> None:
    folded = fold_marks(text)
    assert fold_marks(folded) == folded
    kinds = {unicodedata.category(char) for char in folded}
    assert kinds.isdisjoint({"Mn", "Mc", "Me", "Cf"})
    assert {char for char in folded if unicodedata.category(char) == "Pd"} <= {"-"}


@given(st.text())
def test_tokens_hold_no_blanks_and_lose_no_letter(text: str) -> None:
    tokens = match_tokens(text)
    assert all(token and not any(char.isspace() for char in token) for token in tokens)
    kept = unicodedata.normalize("NFD", text).casefold()
    assert [c for c in "".join(tokens) if c.isalnum()] == [c for c in kept if c.isalnum()]
    assert match_tokens(" ".join(tokens)) == tokens


@given(st.lists(st.sampled_from("ab"), max_size=8), st.lists(st.sampled_from("ab"), max_size=3))
def test_spaced_tokens_hold_a_run_as_its_definition_says(tokens: list[str], run: list[str]) -> None:
    windows = [tokens[start : start + len(run)] for start in range(len(tokens))]
    assert not run or (spaced(run) in spaced(tokens)) == (run in windows)


def test_spaced_tokens_respect_token_edges() -> None:
    assert spaced(["cat"]) not in spaced(["cats", "dog"])
    assert spaced(["cat", "dog"]) not in spaced(["cat", "dogs"])
