"""The trajectories' part of the page: its data, its size, its policy; whatever the texts are."""

import json
import re
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosearch.core.types import Passage
from cosearch.report import markup as report_page
from cosearch.report.browser import SCRIPT, embed, fit_episodes, markup, pack_episode, source_hash
from cosearch.report.markup import Content, Highlight, ReportSection, render
from tests.report import scenes

VOID = {"meta", "input", "img"}
ANY = st.text(st.characters(exclude_categories=()), max_size=12)
"""Any text, lone surrogates and control signs included."""


class Tree(HTMLParser):
    """Fails on a tag that does not close what is open; collects what scripts hold."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.handlers, self.scripts = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data


def page_of(episodes, text="t"):
    report = Content(
        title=text,
        summary=text,
        note=text,
        highlights=[Highlight(text, 0.5, text, (0.25, 0.75))],
        sections=[ReportSection("sayings", text, note=text)],
        episodes=episodes,
    )
    return render(report).html


def data_of(page):
    data, script = Tree(page).scripts
    assert script == SCRIPT
    return json.loads(data)


def as_read(text):
    """``text`` as a script reads it: a high beside a low surrogate is one sign."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@settings(max_examples=60)
@given(ANY, ANY, ANY)
def test_any_text_in_every_field_gives_a_page_that_gives_it_back(one, two, three):
    call = scenes.call(
        query=one, output=two, fault=three, branch=one, group=two, candidates=(), ranking=()
    )
    texts = {"variant", "dataset", "question_id", "question", "answer", "terminal", "fault"}
    episode = scenes.episode(
        **dict.fromkeys(texts, one), golds=(two,), turns=(three,), group=three, calls=(call,)
    )
    page = page_of(scenes.episodes([episode]), two)
    page.encode("utf-8")
    (found,) = data_of(page)["episodes"]
    assert {found[name] for name in texts} == {as_read(one)}
    assert (found["golds"], found["turns"]) == ([as_read(two)], [as_read(three)])
    assert found["calls"][0]["output"] == as_read(two)


@given(ANY, ANY)
def test_titles_and_texts_come_back(title, text):
    passage = Passage("p2", title, text)
    held = data_of(page_of(scenes.episodes([scenes.episode()], p2=passage)))
    assert held["titles"]["p2"] == as_read(title)
    assert held["texts"]["p2"] == as_read(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON | st.text())
def test_embedded_values_come_back_exactly_and_hold_no_markup(value):
    text = embed(value)
    assert json.loads(text) == value
    assert text.isascii() and not set(text) & set("<>&")


def test_a_number_that_is_none_is_refused():
    with pytest.raises(ValueError, match="Out of range"):
        embed(float("nan"))


def test_titles_go_with_all_candidates_and_texts_with_shown_and_relevant_ones():
    call = scenes.call(ranking=(0,))
    held = json.loads(fit_episodes(scenes.episodes([scenes.episode(calls=(call,))]), 10_000).data)
    assert sorted(held["titles"]) == ["p0", "p1", "p2", "p3"]
    assert sorted(held["texts"]) == ["p0", "p2"]
    assert held["episodes"][0]["calls"][0]["candidates"][2] == ["p2", 0.7, 1]


@given(st.lists(st.integers(0, 400), max_size=12), st.integers(0, 6000))
def test_the_data_never_exceed_their_budget(lengths, budget):
    chosen = [
        scenes.episode(question_id=f"q{at}", question="é" * length)
        for at, length in enumerate(lengths)
    ]
    fitted = fit_episodes(scenes.episodes(chosen), budget)
    held = json.loads(fitted.data)["episodes"]
    assert fitted.count == len(held)
    assert not held or len(fitted.data) <= budget
    assert all(one in [pack_episode(episode) for episode in chosen] for one in held)


def test_trajectories_without_room_are_dropped_whole_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr(report_page, "PAGE_BYTES", 60_000)
    chosen = [scenes.episode(sample=at, question="long " * 500) for at in range(40)]
    page = page_of(scenes.episodes(chosen))
    held = data_of(page)["episodes"]
    assert 55_000 < len(page.encode("utf-8")) <= 60_000
    assert [one["sample"] for one in held] == list(range(len(held)))
    assert f"A sample, in which rare cases come first: {len(held)} of 80 trajectories" in page
    assert "The page stays below 0.06 MB; the files of the run hold all trajectories." in page


def test_a_test_question_is_held_with_all_its_systems_or_not_at_all(monkeypatch):
    monkeypatch.setattr(report_page, "PAGE_BYTES", 80_000)
    trained = [scenes.episode(sample=at, question="long " * 300) for at in range(40)]
    page = page_of(scenes.with_tests(scenes.episodes(trained), "abc", 20, question="long " * 300))
    held = data_of(page)["episodes"]
    tested = [one for one in held if one["round"] is None]
    assert len(page.encode("utf-8")) <= 80_000
    questions = {one["question_id"] for one in tested}
    assert 0 < len(questions) < 20 and len(tested) == 3 * len(questions)
    assert {one["id"] for one in tested} == {f"{s}/test/{q}/0" for s in "abc" for q in questions}
    assert tested == held[-len(tested) :] and len(held) > len(tested)
    assert f"{len(questions)} of 100 test questions, the same questions for all 3 systems" in page


def test_trajectories_are_ordered_for_reading_whatever_they_were_chosen_by():
    chosen = [scenes.episode(sample=at, round=2 - at % 2) for at in range(4)]
    held = json.loads(fit_episodes(scenes.episodes(chosen), 100_000).data)["episodes"]
    assert [(one["round"], one["sample"]) for one in held] == [(1, 1), (1, 3), (2, 0), (2, 2)]


def test_the_policy_admits_the_one_script_and_the_one_style_by_hash():
    page = page_of(scenes.episodes([scenes.episode()]))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert unescape(policy) == (
        f"default-src 'none'; script-src {source_hash(SCRIPT)}; style-src {source_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert Tree(page).handlers == []
    assert 'style="' not in page


def test_a_page_without_trajectories_has_no_script_and_admits_none():
    page = page_of(None)
    assert "script" not in Tree(page).tags
    assert "script-src" not in page


def test_the_script_inserts_texts_only_and_asks_for_nothing():
    forbidden = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(")
    asking = ("fetch(", "XMLHttpRequest", "import(", "WebSocket", "sendBeacon", "http")
    assert not [word for word in (*forbidden, *asking) if word in SCRIPT]
    assert not re.search(r"</script|<!--|\.on[a-z]+ =", SCRIPT)


def test_an_empty_sample_is_a_page_too():
    episodes = scenes.episodes([])
    text = markup(episodes, fit_episodes(episodes, 1000), 6_000_000)
    assert "0 of 0 trajectories of 0 training rounds." in text
