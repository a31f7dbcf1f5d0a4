"""Curves and report: what they show, that nothing escapes, that bytes repeat."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import polars as pl
import pytest

from cosearch.evaluation import tables
from cosearch.evaluation.behaviour import cost_table
from cosearch.evaluation.curves import Panel, learning_curves, png, svg
from cosearch.evaluation.report import Picture, Verdict, manifest_table, render

HOSTILE = "<script src=//evil.example/x.js></script><img src=x onerror=alert(1)> & $\\frac{$"


def rows(shift=0.0):
    return pl.DataFrame(
        {
            "round": range(6),
            "reward": [shift + step / 10 for step in range(6)],
            "f1_dev": [0.2, None, None, 0.3, None, 0.4],
        }
    )


def make_figure(label="CoSearch"):
    runs = {label: [rows(), rows(0.1)], "Retrieval Only": [rows(0.2)]}
    return learning_curves(
        runs,
        [Panel("reward", "reward"), Panel("f1_dev", "dev F1")],
        note="profile tiny",
        published={},
    )


def make_pages(results, rollouts, text="Plain text"):
    labels = rollouts.labels | {"start": text}
    scope, block = rollouts.scope(labels=labels), rollouts.block(labels=labels)
    return render(
        title=text,
        profile="tiny",
        note=scope.note(text),
        results=[tables.main_table(results, scope=scope, status={"cosearch": text}, block=block)],
        behaviour=[cost_table(results, scope=scope, status={}, block=block)],
        pictures=[Picture("learning", text, svg(make_figure(text)))],
        verdicts=[Verdict(text, "reads ids", False, text)],
        manifest=[{"name": text, "source": text, "rows": 125}],
    )


class Page(HTMLParser):
    """Collects tags, and every address an attribute could fetch."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.handlers = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def lines_of(figure):
    return [line for axes in figure.axes for line in axes.lines]


def test_curves_draw_each_seed_and_their_mean():
    first, second = make_figure().axes
    thin = [line for line in first.lines if line.get_linewidth() < 1]
    thick = [line for line in first.lines if line.get_linewidth() > 1]
    assert (len(thin), len(thick)) == (2, 2)
    assert list(thick[0].get_ydata()) == pytest.approx([0.05 + step / 10 for step in range(6)])
    assert list(second.lines[-1].get_xdata()) == [0, 3, 5]


def test_rounds_that_a_seed_did_not_measure_have_no_mean():
    figure = learning_curves(
        {"a": [rows(), rows().head(3)]}, [Panel("reward", "reward")], note="n", published={}
    )
    assert list(lines_of(figure)[-1].get_xdata()) == [0, 1, 2]


def test_published_curves_are_dashed_in_the_colour_of_their_run():
    published = {"a": rows().select("round", "reward"), "b": rows().select("round", "reward")}
    panels = [Panel("reward", "reward"), Panel("f1_dev", "dev F1")]
    figure = learning_curves({"a": [rows()]}, panels, note="n", published=published)
    first, second = figure.axes
    ours, paper, other = first.lines
    assert paper.get_linestyle() == other.get_linestyle() == "--"
    assert paper.get_color() == ours.get_color() != other.get_color()
    assert len(second.lines) == 1


def test_curves_without_a_panel_or_with_an_unknown_column_are_refused():
    with pytest.raises(ValueError, match="without a panel"):
        learning_curves({"a": [rows()]}, [], note="n", published={})
    with pytest.raises(ValueError, match="no run has the column 'loss'"):
        learning_curves({"a": [rows()]}, [Panel("loss", "loss")], note="n", published={})


def test_figures_repeat_their_bytes_and_carry_no_date():
    first, second = make_figure(), make_figure()
    assert svg(first) == svg(second)
    assert png(first) == png(second)
    assert "<dc:date>" not in svg(first)
    assert re.search(r"20\d\d-\d\d-\d\d", svg(first)) is None


def test_hostile_labels_make_a_well_formed_figure():
    root = ElementTree.fromstring(svg(make_figure(HOSTILE)))
    assert not [node for node in root.iter() if node.tag.endswith(("script", "}image"))]


def test_the_page_fetches_nothing_and_runs_nothing(results, rollouts):
    page = Page(make_pages(results, rollouts, HOSTILE).html)
    assert "script" not in page.tags
    assert page.handlers == []
    assert page.tags.count("img") == 1
    assert all(
        address.startswith(("data:image/svg+xml;base64,", "#")) for address in page.addresses
    )


def test_the_markdown_holds_no_tag(results, rollouts):
    assert "<" not in make_pages(results, rollouts, HOSTILE).markdown


def test_pages_repeat_their_bytes_and_name_no_path(results, rollouts):
    first, second = (make_pages(results, rollouts) for _ in range(2))
    assert first == second
    assert "/work" not in first.html
    assert re.search(r"20\d\d-\d\d-\d\d", first.markdown) is None


def test_both_pages_hold_every_section(results, rollouts):
    pages = make_pages(results, rollouts)
    for text in ("Results", "Behaviour and cost", "Learning curves", "Gates", "Data", "reads ids"):
        assert text in pages.html
        assert text in pages.markdown
    assert "![Plain text](learning.svg)" in pages.markdown


def test_sections_without_content_are_left_out():
    pages = render(
        title="t",
        profile="tiny",
        note="n",
        results=[],
        behaviour=[],
        pictures=[],
        verdicts=[],
        manifest=[],
    )
    assert "<h2" not in pages.html
    assert pages.markdown == "# t\n\n> n\n"


def test_a_manifest_with_different_fields_is_refused():
    with pytest.raises(ValueError, match="different fields"):
        manifest_table([{"name": "a", "rows": 1}, {"name": "b", "split": "x"}], "tiny")
