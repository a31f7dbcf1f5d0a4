"""Curves and report: what they show, that nothing escapes, that bytes repeat."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import polars as pl
import pytest

from cosearch.report.curves import PALETTE, Curves, adaptive_svg, png, svg
from cosearch.report.markup import (
    Content,
    GateVerdict,
    Highlight,
    PanelPicture,
    Picture,
    ReportSection,
    manifest_table,
    render,
    verdict_table,
)
from cosearch.report.origins import RowOrigin, StageOrigin
from cosearch.tables.behaviour import cost_table
from cosearch.tables.main import main_table
from cosearch.tables.panels import Panel

STAGE = StageOrigin(
    "identity/x.json", "evaluate@x-0", {"a": {"b": 1}}, {"models/x": "0" * 64}, {"x.py": "1"}
)
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
    panels = [Panel("reward", "reward"), Panel("f1_dev", "dev F1")]
    return Curves(runs, panels, "profile tiny", {}).figure()


def make_pages(results, rollouts, text="Plain text"):
    labels = rollouts.labels | {"start": text}
    scope, block = rollouts.scope(labels=labels), rollouts.block(labels=labels)
    main = main_table(rollouts.set_of(results, scope=scope, status={"cosearch": text}), block)
    cost = cost_table(rollouts.set_of(results, scope=scope), block)
    panel = PanelPicture(text, adaptive_svg(make_figure(text)))
    picture = Picture("learning", text, (panel,), (text,), text)
    verdicts = verdict_table([GateVerdict(text, "reads ids", False, text)], "tiny")
    manifest = manifest_table([{"name": text, "source": text, "rows": 125}], "tiny")
    report = Content(
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
    return render(report)


class Page(HTMLParser):
    """Collects tags, and every address an attribute could fetch."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.handlers, self.attributes = [], [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.attributes |= {name for name, _ in attrs}


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
    figure = Curves({"a": [rows(), rows().head(3)]}, [Panel("reward", "reward")], "n", {}).figure()
    assert list(lines_of(figure)[-1].get_xdata()) == [0, 1, 2]


def test_published_curves_are_dashed_in_the_colour_of_their_run():
    published = {"a": rows().select("round", "reward"), "b": rows().select("round", "reward")}
    panels = [Panel("reward", "reward"), Panel("f1_dev", "dev F1")]
    figure = Curves({"a": [rows()]}, panels, "n", published).figure()
    first, second = figure.axes
    ours, paper, other = first.lines
    assert paper.get_linestyle() == other.get_linestyle() == "--"
    assert paper.get_color() == ours.get_color() != other.get_color()
    assert len(second.lines) == 1


def test_curves_without_a_panel_or_with_an_unknown_column_are_refused():
    with pytest.raises(ValueError, match="without a panel"):
        Curves({"a": [rows()]}, [], "n", {})
    with pytest.raises(ValueError, match="no run has the column 'loss'"):
        Curves({"a": [rows()]}, [Panel("loss", "loss")], "n", {})


def test_a_panel_by_itself_says_in_words_what_it_shows():
    curves = Curves({"a": [rows(), rows(0.1)], "b": [rows(0.2)]}, [Panel("reward", "x")], "n", {})
    assert [len(figure.axes) for _, figure in curves.each()] == [1]
    summary = curves.summary(curves.panels[0])
    assert summary == "x over the rounds: a from 0.050 to 0.550; b from 0.200 to 0.700"


def test_more_runs_than_colours_are_told_apart_by_their_dashes():
    runs = {str(number): [rows(number)] for number in range(28)}
    figure = Curves(runs, [Panel("reward", "reward")], "n", {}).figure()
    drawn = adaptive_svg(figure).partition("legend")[0]
    looks = set(re.findall(r'style="(fill: none; [^"]*var\(--c\d\)[^"]*)"', drawn))
    assert len(looks) == 28


def test_a_picture_of_the_page_takes_every_colour_from_the_palette():
    text = adaptive_svg(make_figure())
    drawn = text.replace(PALETTE, "")
    assert PALETTE in text
    assert "var(--ink)" in drawn and "var(--c0)" in drawn
    assert not set(re.findall(r"#[0-9a-f]{6}\b", drawn)) - {"#000000", "#ffffff"}


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
    assert "style" not in page.attributes
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
    bare = render(Content(title="t", summary="", note="n", highlights=[], sections=[]))
    assert re.findall("<h2>(.*)</h2>", bare.html) == ["Words"]
    assert bare.markdown == "# t\n\n> n\n"


def test_every_section_has_an_anchor_that_the_header_names(results, rollouts):
    html = make_pages(results, rollouts).html
    anchors = re.findall(r'<a href="#(section-\w+)">', html)
    assert anchors == re.findall(r'<section id="([^"]+)">', html)
    assert len(anchors) == 6


def test_every_table_scrolls_in_a_box_of_its_own(results, rollouts):
    html = make_pages(results, rollouts, HOSTILE).html
    box = r'<div class="box" role="region" aria-labelledby="(.*)" tabindex="0"><table>'
    boxed = re.findall(box, html)
    assert len(boxed) == html.count("<table>") == html.count("</table></div>") == 4
    assert all(html.count(f'id="{title}"') == 1 for title in boxed)


def test_key_numbers_stand_in_the_markdown_with_their_intervals(results, rollouts):
    pages = make_pages(results, rollouts)
    assert "- Plain text: 0.500 \\[0.250, 1.000\\] (Plain text)\n- searches: 12\n" in pages.markdown


def test_numbers_lead_to_their_rows_and_labels_do_too(results, rollouts):
    origin = RowOrigin("cosearch", "CoSearch", (STAGE,), "CoSearch", [], {}, ("dvc repro x",))
    table = main_table(rollouts.set_of(results), rollouts.block())
    report = Content(
        title="t",
        summary="",
        note="n",
        highlights=[],
        sections=[ReportSection("results", "Results", tables=(table,))],
        origins=[origin],
    )
    html = render(report).html
    label = '<th scope="row"><a href="#row-cosearch">CoSearch</a></th>'
    (row,) = re.findall(f"{label}(.*)", html)
    cells = re.findall("<td>(.*?)</td>", row)
    numbers = [cell for cell in cells if cell != "–"]
    assert len(numbers) == len(table.columns)
    assert all(cell.startswith('<a href="#row-cosearch" tabindex="-1">') for cell in numbers)
    assert html.count('id="row-cosearch"') == html.count(f'id="code-{STAGE.fingerprint}"') == 1
    assert "dvc repro x" in html
    assert "#row-oracle" not in html


def test_rows_that_were_not_run_are_counted_at_their_switch(results, rollouts):
    held = [one for one in results if one.system not in ("cosearch", "oracle")]
    block = rollouts.block()
    status = {"direct": "withheld: why"}
    absent = [row.label for row in main_table(rollouts.set_of(held), block).rows if row.status]
    table = main_table(rollouts.set_of(held, status=status), block)
    page = Content("t", "", "n", [], [ReportSection("results", "Results", tables=(table,))])
    html = render(page).html
    assert f"Show {len(absent)} rows that were not run" in html
    assert html.count('class=" absent"') + html.count('class="ruled absent"') == len(absent)
    assert (
        "withheld</button></span>: why</td>" in html or "withheld</button>:</span> why</td>" in html
    )


def test_control_signs_and_lone_surrogates_become_symbols():
    text = "a\x00b\x1bc\x9bd\ud800e"
    html = render(Content(title="t", summary=text, note="n", highlights=[], sections=[])).html
    assert "a\u2400b\u241bc\ufffdd\ufffde" in html
    html.encode("utf-8")


def test_a_manifest_with_different_fields_is_refused():
    with pytest.raises(ValueError, match="different fields"):
        manifest_table([{"name": "a", "rows": 1}, {"name": "b", "split": "x"}], "tiny")
