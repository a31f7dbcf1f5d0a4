"""Words with a meaning: found as whole words, explained once, and never more than text."""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from cosearch.report.markup import WORDS
from cosearch.report.words import Words, slug

FEW = Words.of(
    {
        "gate": {"means": "A check.", "also": ["gates"]},
        "Hit@k": {"means": "Found in k.", "also": ["Hit@1"]},
        "K": {"means": "Passages shown."},
        "rule bag": {"means": "Words.", "also": ["bag"]},
    }
)


def shown(marked):
    """What a reader sees of marked text."""
    return re.sub("<[^>]*>", "", str(marked))


def buttons(marked):
    """(part of the id, text) of every button."""
    return re.findall(r'popovertarget="word-([^"]*)">([^<]*)</button>', str(marked))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Gates and a gate", [("gate", "Gates")]),
        ("gateway", []),
        ("Hit@1, retriever Hit@1", [(slug("Hit@k"), "Hit@1")]),
        ("K=3 of kinds", [("K", "K")]),
        ("top k", []),
        ("the rule bag, F1 bag", [(slug("rule bag"), "rule bag")]),
        ("F1 bag", [(slug("rule bag"), "bag")]),
    ],
)
def test_a_word_is_found_whole_and_explained_once(text, found):
    marked = FEW.marker().mark(text)
    assert buttons(marked) == found
    assert shown(marked) == text


def test_signs_stay_on_the_line_of_their_word():
    assert '<span class="whole">(<button' in FEW.marker().mark("avg (gate).")
    assert "</button>).</span>" in FEW.marker().mark("avg (gate).")


def test_the_rest_are_words_that_no_text_before_explained():
    marker = FEW.marker()
    marker.mark("a gate")
    assert [buttons(one) for one in marker.rest(["gate K", "K bag"])] == [
        [("K", "K")],
        [(slug("rule bag"), "bag")],
    ]


@given(st.text(max_size=20), st.sampled_from(["gate", "<b>", "Hit@k", ""]))
def test_marked_text_shows_the_text_and_nothing_else(text, word):
    given_text = f"{text}{word} {text}"
    assert shown(FEW.marker().mark(given_text)) == str(escape(given_text))


def test_a_spelling_of_two_words_is_refused():
    entries = yaml.safe_load("{gate: {means: a, also: [test]}, exam: {means: b, also: [test]}}")
    with pytest.raises(ValueError, match="'test' is a spelling of two words"):
        Words.of(entries)


def test_every_word_of_the_page_has_a_sentence_and_an_id_of_its_own():
    assert all(meaning.endswith(".") for meaning in WORDS.meanings.values())
    ids = {slug(word) for word in WORDS.meanings}
    assert len(ids) == len(WORDS.meanings)
    assert all(re.fullmatch(r"[\w-]+", one) for one in ids)
