"""The report in a real browser: filters, permalinks, keys, and what it must never do."""

import pytest

from cosearch.core.types import Passage
from cosearch.params.rows import OraclePair
from cosearch.report.markup import (
    Content,
    Highlight,
    PanelPicture,
    Picture,
    ReportSection,
    render,
)
from cosearch.tables import main
from cosearch.tables.oracle_gap import oracle_table
from tests.chromium import Tab
from tests.report import scenes

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\"><!-- \u202e\u200f\u2066 \x00\x1b"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="4"><rect style="fill:red"/></svg>'
COUNT = "document.getElementById('episodes-count').textContent"
TITLES = "[...document.querySelectorAll('#episodes-list a > bdi')].map(e => e.textContent)"
DETAIL = "document.getElementById('episodes-detail').innerText"
CURRENT = "document.querySelector('#episodes-list [data-current]').dataset.id"


def choose(name, value):
    """Script that sets a filter as a reader does."""
    return (
        f"{{ const input = document.querySelector('[data-filter={name}]'); input.value = '{value}';"
        " input.dispatchEvent(new Event('input')); }"
    )


def sample():
    """Six trajectories that differ in all that can be filtered."""
    lost = scenes.call(branch="excluded", group=None, mates=(), trained=False, r_rank=0.0)
    turns = ("<reason>hm</reason> <answer>cat</answer>",)
    wrong = {"answer": "cat", "f1": 0.0, "reward": 0.0, "turns": turns}
    return [
        scenes.episode(question="first"),
        scenes.episode(question="second", round=2, sample=1, **{**wrong, "answer": "dog"}),
        scenes.episode(question="third", dataset="musique", question_id="m0", f1=0.5),
        scenes.episode(
            question="fourth", variant="fixed", terminal="malformed", calls=(lost,), **wrong
        ),
        scenes.episode(question="fifth", variant="fixed", round=2, calls=(), **wrong),
        scenes.episode(
            question=HOSTILE,
            question_id=HOSTILE,
            variant="hostile",
            golds=(HOSTILE,),
            turns=(HOSTILE,),
            answer=HOSTILE,
            fault=HOSTILE,
            group=HOSTILE,
            calls=(scenes.call(query=HOSTILE, output=HOSTILE, branch=HOSTILE, group=HOSTILE),),
        ),
    ]


@pytest.fixture(scope="module")
def page(tmp_path_factory, results, rollouts):
    status = {"cosearch": HOSTILE}
    pair = OraclePair(name="large", backbone=None, standard="retrieval_only", oracle="oracle")
    passages = {id: Passage(id, HOSTILE, HOSTILE) for id in ("p0", "p2")}
    report = Content(
        title=f"Report {HOSTILE}",
        summary=HOSTILE,
        note=HOSTILE,
        highlights=[Highlight(HOSTILE, 0.5, HOSTILE, (0.4, 0.6))],
        sections=[
            ReportSection(
                "results",
                HOSTILE,
                tables=(
                    main.main_table(rollouts.set_of(results, status=status), rollouts.block()),
                    oracle_table(rollouts.set_of(results), pair),
                ),
                pictures=(Picture("p", HOSTILE, (PanelPicture(HOSTILE, SVG),)),),
            )
        ],
        episodes=scenes.episodes(sample(), **passages),
    )
    pages = render(report)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(pages.html, "utf-8")
    return path


@pytest.fixture(scope="module")
def tab(browser):
    return Tab(browser)


def test_the_page_asks_for_nothing_and_nothing_goes_wrong(tab, page):
    tab.open(page)
    tab.run("scrollTo(0, document.body.scrollHeight)")
    assert [url.partition(":")[0] for url in tab.requests].count("file") == 1
    assert {url.partition(":")[0] for url in tab.requests} <= {"file", "data"}
    assert tab.complaints == []
    assert tab.run("document.querySelector('img').naturalWidth") == 4
    assert tab.run("getComputedStyle(document.querySelector('header')).position") == "sticky"


def test_a_page_that_asks_or_breaks_its_policy_is_caught(tab, page):
    broken = page.with_name("broken.html")
    text = page.read_text("utf-8").replace("<main>", '<main><img src="http://127.0.0.1:9/x.png">')
    broken.write_text(text.replace('"use strict";', '"use strict"; '), "utf-8")
    tab.open(broken)
    assert tab.run(COUNT) == ""
    assert len([one for one in tab.complaints if "Content Security" in str(one)]) == 2
    text = page.read_text("utf-8").replace("Content-Security-Policy", "none")
    broken.write_text(text.replace("<main>", '<main><img src="http://127.0.0.1:9/x.png">'))
    tab.open(broken)
    assert "http://127.0.0.1:9/x.png" in tab.requests


def test_every_table_and_section_is_there(tab, page):
    tab.open(page)
    for name in ("main_large", "oracle_large", "section-results", "section-episodes"):
        assert tab.run(f"document.querySelectorAll('#{name}').length") == 1, name
    assert tab.run(
        "[...document.querySelectorAll('nav a')].every(a => document.querySelector(a.hash))"
    )


@pytest.mark.parametrize(
    ("fragment", "titles"),
    [
        ("variant=fixed", ["fourth", "fifth"]),
        ("round=2", ["second", "fifth"]),
        ("dataset=musique", ["third"]),
        ("outcome=F1+%3D+0&variant=cosearch", ["second"]),
        ("outcome=F1+%3E+0&variant=cosearch", ["third", "first"]),
        ("outcome=F1+%3D+1&variant=cosearch", ["first"]),
        ("terminal=malformed", ["fourth"]),
        ("branch=excluded", ["fourth"]),
        ("text=DOG", ["second"]),
        ("text=nowhere", []),
    ],
)
def test_the_address_filters(tab, page, fragment, titles):
    tab.open(page, f"#episodes?{fragment}")
    assert sorted(tab.run(TITLES)) == sorted(titles)
    assert tab.run(COUNT) == f"{len(titles)} of 6 shown"


def test_filters_change_what_is_shown_and_the_address(tab, page):
    tab.open(page)
    assert tab.run(COUNT) == "6 of 6 shown"
    tab.run(choose("variant", "cosearch"))
    assert tab.run(COUNT) == "3 of 6 shown"
    tab.run(choose("text", "dog"))
    assert tab.run(COUNT) == "1 of 6 shown"
    tab.until("location.hash.includes('text=dog')")
    assert tab.run("location.hash") == (
        "#episodes?id=cosearch%2F2%2Fq0%2F1&variant=cosearch&text=dog"
    )
    tab.run(choose("variant", ""))
    tab.run(choose("text", ""))
    assert tab.run(COUNT) == "6 of 6 shown"
    assert tab.complaints == []


def test_a_permalink_shows_its_trajectory_with_all_that_was_recorded(tab, page):
    tab.open(page, "#episodes?id=cosearch%2F1%2Fq0%2F0")
    text = tab.run(DETAIL)
    for part in ("first", "red fox", "nq/q0", "0.7", "1, 0", "answered", "F1 1"):
        assert part in text, part
    for part in ("Search: fox", "relevance_and_main", "nq/q0#0", "2, 1", "0.5", "Turn 2", "● yes"):
        assert part in text, part
    assert "Not shown to the agent: 2 candidates" in text
    assert (
        tab.run("document.querySelector('.permalink').hash") == "#episodes?id=cosearch%2F1%2Fq0%2F0"
    )
    assert tab.run(COUNT) == "6 of 6 shown"
    tab.run("location.hash = '#episodes?id=nobody'")
    tab.until(f"{DETAIL}.includes('no such trajectory')")


def test_keys_step_through_the_list_and_not_while_typing(tab, page):
    tab.open(page)
    ids = tab.run("[...document.querySelectorAll('#episodes-list li')].map(e => e.dataset.id)")
    assert tab.run(CURRENT) == ids[0]
    tab.press("k")
    assert tab.run(CURRENT) == ids[0]
    tab.press("j")
    tab.press("j")
    assert tab.run(CURRENT) == ids[2]
    tab.press("k")
    assert tab.run(CURRENT) == ids[1]
    tab.until("location.hash")
    assert tab.run("new URLSearchParams(location.hash.slice(10)).get('id')") == ids[1]
    tab.run("document.querySelector('[data-filter=text]').focus()")
    tab.press("j")
    assert tab.run("document.querySelector('[data-filter=text]').value") == "j"


def test_hostile_text_stays_text(tab, page):
    tab.open(page, "#episodes?variant=hostile")
    assert tab.run("document.title").startswith("Report </script><img src=x")
    assert tab.run("document.querySelectorAll('img').length") == 1
    assert tab.run("document.querySelectorAll('#section-episodes script').length") == 2
    for element in (
        "#episodes-detail h3 bdi",
        "#episodes-detail pre bdi",
        "#episodes-detail summary bdi",
    ):
        text = tab.run(f"document.querySelector('{element}').textContent")
        assert text.startswith("</script><img src=x onerror="), element
        assert text.endswith("[U+202E]\u200f[U+2066] ␀␛"), element
    assert tab.complaints == []


def test_every_quoted_text_is_isolated(tab, page):
    tab.open(page, "#episodes?variant=hostile")
    stray = """[...document.querySelectorAll('#episodes-detail *, #episodes-list *')].filter(e =>
        e.tagName !== 'BDI' && [...e.childNodes].some(n => n.nodeType === 3
        && n.data.includes('</script>'))).length"""
    assert tab.run(stray) == 0
    isolated = "getComputedStyle(document.querySelector('#episodes-detail bdi')).unicodeBidi"
    assert tab.run(isolated) == "isolate"


def test_short_words_in_a_table_do_not_wrap(tab, page):
    tab.open(page)
    cell = "(e => { e.textContent = 'above 0'; return e.getClientRects()[0].height })"
    lines = f"""(() => {{ const row = document.querySelector('#main_large tbody tr');
        const cell = row.insertCell(); cell.className = 'text';
        const height = {cell}(cell); cell.style.whiteSpace = 'nowrap';
        return [height, cell.getBoundingClientRect().height] }})()"""
    wrapped, single = tab.run(lines)
    assert wrapped == single
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")


PANES = "[...document.querySelectorAll('#versus-panes article')].map(e => e.innerText)"
SIDES = "[...document.querySelectorAll('#versus-choice select')].map(e => e.value)"


def choose_side(name, value):
    """Script that chooses a question or a system as a reader does."""
    return (
        f"{{ const side = document.querySelector('[data-side={name}]'); side.value = '{value}';"
        " side.dispatchEvent(new Event('input')); }"
    )


@pytest.fixture(scope="module")
def tested(tmp_path_factory):
    """A page with one trajectory of training, and three test questions of three systems."""
    systems = ("CoSearch", "Fixed Ranker", HOSTILE)
    found = scenes.with_tests(scenes.episodes([scenes.episode()]), systems, 3)
    report = Content(title="t", summary="", note="", highlights=[], sections=[], episodes=found)
    pages = render(report)
    path = tmp_path_factory.mktemp("tested") / "report.html"
    path.write_text(pages.html, "utf-8")
    return path


def test_the_first_two_systems_face_each_other_at_first(tab, tested):
    tab.open(tested)
    assert tab.run(SIDES) == ["nq/t0", "CoSearch", "Fixed Ranker"]
    left, right = tab.run(PANES)
    assert "Who is 0?" in left and "CoSearch" in left and "F1 1" in left
    assert "Who is 0?" in right and "Fixed Ranker" in right and "F1 0" in right
    names = tab.run("[...document.querySelector('[data-side=question]')].map(e => e.text)")
    assert names == [f"Who is {number}? (nq; F1 1, 0)" for number in range(3)]
    assert tab.complaints == []


def test_a_question_and_two_systems_are_chosen_and_have_an_address(tab, tested):
    tab.open(tested)
    tab.run(choose_side("question", "nq/t2"))
    tab.run(choose_side("left", "Fixed Ranker"))
    tab.run(choose_side("right", "CoSearch"))
    left, right = tab.run(PANES)
    assert "Who is 2?" in left and "F1 0" in left and "Who is 2?" in right and "F1 1" in right
    wanted = "#versus?question=nq%2Ft2&left=Fixed+Ranker&right=CoSearch"
    tab.until(f"location.hash === '{wanted}'")
    tab.open(tested, wanted)
    assert tab.run(PANES) == [left, right]
    tab.run("location.hash = '#versus?question=nq%2Ft1'")
    tab.until(f"{PANES}[0].includes('Who is 1?')")
    tab.run("location.hash = '#versus?question=nobody'")
    tab.until(f"{PANES}[1].includes('no such trajectory')")
    assert tab.complaints == []


def test_evaluations_are_a_kind_of_run_without_groups(tab, tested):
    tab.open(tested, "#episodes?run=evaluation&variant=CoSearch")
    assert tab.run(COUNT) == "3 of 10 shown"
    text = tab.run(DETAIL)
    assert "evaluation" in text and "branch of Eq. 6" in text
    assert "group" not in text and "advantage" not in text and "trained on" not in text
    tab.open(tested, "#episodes?run=training")
    assert tab.run(COUNT) == "1 of 10 shown"
    assert "rewards of the group" in tab.run(DETAIL)


def test_a_hostile_system_stays_text(tab, tested):
    tab.open(tested)
    tab.run(
        "{ const side = document.querySelector('[data-side=left]'); side.selectedIndex = 2;"
        " side.dispatchEvent(new Event('input')); }"
    )
    assert tab.run(PANES)[0].count("</script><img src=x") == 1
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert tab.complaints == []


def test_a_page_without_evaluations_has_no_sides(tab, page):
    tab.open(page)
    assert tab.run("document.getElementById('versus')") is None
