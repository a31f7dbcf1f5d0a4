"""Curves and report: what they show, that nothing escapes, that bytes repeat."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import polars as pl
import pytest

from cosearch.report.curves import learning_curves, png, svg
from cosearch.report.markup import (
    GateVerdict,
    Highlight,
    Picture,
    ReportSection,
    manifest_table,
    render,
    verdict_table,
)
from cosearch.tables.behaviour import cost_table
from cosearch.tables.main import main_table
from cosearch.tables.panels import Panel

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
    main = main_table(rollouts.set_of(results, scope=scope, status={"cosearch": text}), block)
    cost = cost_table(rollouts.set_of(results, scope=scope), block)
    picture = Picture("learning", text, svg(make_figure(text)))
    verdicts = verdict_table([GateVerdict(text, "reads ids", False, text)], "tiny")
    manifest = manifest_table([{"name": text, "source": text, "rows": 125}], "tiny")
    return render(
        title=text,
        summary=text,
        note=scope.note(text),
        highlights=[Highlight(text, 0.5, text, (0.25, 1)), Highlight("searches", 12)],
        sections=[
            ReportSection("results", "Results", tables=(main,)),
            ReportSection("cost", "Behaviour and cost", note=text, tables=(cost,)),
            ReportSection("curves", "Learning curves", pictures=(picture,)),
            ReportSection("gates", "Gates", tables=(verdicts,)),
            ReportSection("data", "Data", tables=(manifest,)),
            ReportSection("empty", "Nothing here"),
        ],
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


def test_sections_without_content_are_left_out(results, rollouts):
    pages = make_pages(results, rollouts)
    assert "Nothing here" not in pages.html + pages.markdown
    bare = render(title="t", summary="", note="n", highlights=[], sections=[])
    assert "<h2" not in bare.html
    assert bare.markdown == "# t\n\n> n\n"


def test_every_section_has_an_anchor_that_the_header_names(results, rollouts):
    html = make_pages(results, rollouts).html
    anchors = re.findall(r'<a href="#(section-\w+)">', html)
    assert anchors == re.findall(r'<section id="([^"]+)">', html)
    assert len(anchors) == 5


def test_every_table_scrolls_in_a_box_of_its_own(results, rollouts):
    html = make_pages(results, rollouts, HOSTILE).html
    boxed = html.count('<div class="box" tabindex="0"><table>')
    assert boxed == html.count("<table>") == html.count("</table></div>") == 4


def test_key_numbers_stand_on_both_pages_with_their_intervals(results, rollouts):
    pages = make_pages(results, rollouts)
    assert "<li>Plain text<b>0.500 [0.250, 1.000]</b><small>Plain text</small></li>" in pages.html
    assert "<b>12</b>" in pages.html
    assert "- Plain text: 0.500 \\[0.250, 1.000\\] (Plain text)\n- searches: 12\n" in pages.markdown


def test_control_signs_and_lone_surrogates_become_symbols():
    text = "a\x00b\x1bc\x9bd\ud800e"
    html = render(title="t", summary=text, note="n", highlights=[], sections=[]).html
    assert "a\u2400b\u241bc\ufffdd\ufffde" in html
    html.encode("utf-8")


def test_a_manifest_with_different_fields_is_refused():
    with pytest.raises(ValueError, match="different fields"):
        manifest_table([{"name": "a", "rows": 1}, {"name": "b", "split": "x"}], "tiny")
