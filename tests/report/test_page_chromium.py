"""The page on several screens, light and dark: nothing runs over, everything is reached."""

from dataclasses import replace
from itertools import pairwise

import pytest

from cosearch.report.curves import Curves
from cosearch.report.glance import glance
from cosearch.report.markup import Content, ReportSection, render
from cosearch.report.origins import RowOrigin, StageOrigin
from cosearch.report.write import picture_of
from cosearch.tables.contrasts import comparison_table
from cosearch.tables.main import main_table
from cosearch.tables.panels import Panel
from tests.chromium import Tab
from tests.report import scenes
from tests.report.test_glance import evidence
from tests.report.test_pages import rows

SCREENS = [(1280, 800), (400, 800)]
LONG = "a label without end " * 8
BOX = """(() => {
    const box = document.querySelector('#figure_2 img').getBoundingClientRect();
    return {x: box.x, y: box.y, width: box.width, height: box.height, scale: 1};
})()"""
DISPLAY = "getComputedStyle(document.querySelector({!r})).{}"


def content(results, rollouts):
    """Every part of the page: pictures, tables, rows not run, origins, trajectories."""
    held = [one for one in results if one.system != "oracle"]
    found = evidence(held, rollouts)
    tables = (
        main_table(found.results, found.tables.main[0]),
        replace(comparison_table(found.results, found.comparisons), note=LONG),
    )
    curves = Curves({LONG: [rows()], "b": [rows(0.1)]}, [Panel("reward", LONG)], LONG, {})
    pictures = (picture_of("figure_2", LONG, curves), picture_of("curves", "Curves", curves))
    stage = StageOrigin("x" * 80, "evaluate@x-0", {LONG: LONG}, {LONG: "0" * 64}, {LONG: "1"})
    return Content(
        title="CoSearch",
        summary="",
        note=LONG,
        highlights=[],
        sections=[ReportSection("results", "Results", tables=tables, pictures=pictures)],
        intervals=glance(found),
        origins=[RowOrigin("cosearch", LONG, (stage,), "x", [LONG * 2], {}, ("dvc repro x",))],
        episodes=scenes.episodes([scenes.episode()]),
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory, results, rollouts):
    path = tmp_path_factory.mktemp("screens") / "report.html"
    path.write_text(render(content(results, rollouts)).html, "utf-8")
    return path


@pytest.fixture(scope="module")
def tab(browser):
    found = Tab(browser)
    yield found
    found.screen(1280, 800)


@pytest.mark.parametrize("size", SCREENS)
def test_no_page_is_wider_than_its_screen(tab, page, size):
    tab.screen(*size)
    tab.open(page)
    tab.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    seen = tab.run("document.documentElement.clientWidth")
    assert tab.run("document.documentElement.scrollWidth") <= seen <= size[0]
    boxes = "[...document.querySelectorAll('.box')]"
    assert tab.run(f"{boxes}.some(box => box.scrollWidth > box.clientWidth)")
    assert tab.complaints == []


@pytest.mark.parametrize("size", SCREENS)
def test_the_first_column_stays_when_a_table_scrolls(tab, page, size):
    tab.screen(*size)
    tab.open(page)
    left = "document.querySelector('#comparisons tbody th').getBoundingClientRect().left"
    before = tab.run(left)
    tab.run("document.querySelector('#comparisons .box').scrollLeft = 300")
    assert tab.run(left) == before


def test_a_dark_screen_has_dark_paper_and_light_ink_in_pictures_too(tab, page):
    colours = []
    for dark in (False, True):
        tab.screen(1280, 800, dark=dark)
        tab.open(page)
        tab.run("document.querySelector('#figure_2').scrollIntoView()")
        tab.until("[...document.images].every(one => one.complete)")
        box = tab.run(BOX)
        strip = tab.run(DISPLAY.format(".strip .range", "stroke"))
        paper = tab.run("getComputedStyle(document.body).backgroundColor")
        colours.append((tab.picture(clip=box), strip, paper))
    light, dark = colours
    assert all(one != two for one, two in zip(light, dark, strict=True))
    assert tab.complaints == []


def test_rows_that_were_not_run_show_after_a_press_of_a_key(tab, page):
    tab.screen(1280, 800)
    tab.open(page)
    shown = DISPLAY.format("#main_large tr.absent", "display")
    assert tab.run(shown) == "none"
    tab.run("document.querySelector('#main_large .switch input').focus()")
    tab.press(" ")
    assert tab.run(shown) == "table-row"


def test_a_word_opens_its_meaning_by_key_and_closes_again(tab, page):
    tab.open(page)
    tab.run("document.querySelector('#main_large [popovertarget=word-macro]').focus()")
    opened = "document.querySelector('#word-macro').matches(':popover-open')"
    assert not tab.run(opened)
    tab.press("Enter", "\r")
    assert tab.run(opened)
    assert "mean of the data sets" in tab.run("document.querySelector('#word-macro').innerText")
    tab.press("Enter", "\r")
    assert not tab.run(opened)


def test_a_number_leads_to_its_row_and_opens_it(tab, page):
    tab.open(page)
    tab.run("document.querySelector('#main_large td a[href=\"#row-cosearch\"]').click()")
    tab.until("document.querySelector('#row-cosearch').closest('details').open")
    assert tab.run("document.querySelector('#row-cosearch').getBoundingClientRect().top") < 800


def test_headings_are_in_order_and_every_picture_says_what_it_shows(tab, page):
    tab.open(page)
    levels = tab.run("[...document.querySelectorAll('h1,h2,h3,h4,h5')].map(e => +e.tagName[1])")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert tab.run("[...document.images].every(one => one.alt)")
    assert tab.run(
        "[...document.querySelectorAll('svg')].every(e => e.ariaHidden || e.querySelector('title'))"
    )


@pytest.mark.parametrize("dark", [False, True])
def test_words_stand_out_from_their_paper(tab, page, dark):
    """The contrast of WCAG 2, level AA, of all text in the tables and pictures."""
    tab.screen(1280, 800, dark=dark)
    tab.open(page)
    low = tab.run("""(() => {
        const parts = colour => colour.match(/[\\d.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
        const paper = e => { const [r, g, b, a] = parts(getComputedStyle(e).backgroundColor);
            return a === 0 ? paper(e.parentElement) : [r, g, b]; };
        return [...document.querySelectorAll('main *')].filter(e =>
            [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) && e.checkVisibility()
        ).map(e => {
            const svg = e.ownerSVGElement, style = getComputedStyle(e);
            const ink = light(parts(svg ? style.fill : style.color));
            const [low, high] = [ink, light(paper(svg ?? e))].sort((a, b) => a - b);
            return [(high + 0.05) / (low + 0.05), e.tagName, e.textContent.slice(0, 40)];
        }).filter(([ratio]) => ratio < 4.5);
    })()""")
    assert low == []
