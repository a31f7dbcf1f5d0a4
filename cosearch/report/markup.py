"""The report: one self-contained HTML page, and the same as Markdown.

The page loads nothing from a network. Its content policy forbids that and allows one style and,
where there are trajectories to browse, one script, both by hash. The templates escape every text,
because questions, passages and outputs of models are untrusted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import yaml
from markupsafe import Markup

from cosearch.report.browser import SCRIPT, fit_episodes, markup, source_hash
from cosearch.report.curves import PALETTE
from cosearch.report.episodes import Episodes
from cosearch.report.intervals import IntervalPicture
from cosearch.report.origins import RowOrigin
from cosearch.report.templates import PAGE, TEMPLATES
from cosearch.report.words import Words
from cosearch.statistics.results import NOT_RUN
from cosearch.tables.layout import Column, PrintedRow, Table, cell_text, escape_markdown

PAGE_BYTES = 6_000_000
"""Largest size of the HTML page; trajectories beyond it are left out."""

_STYLE = PALETTE + (PAGE / "report.css").read_text("utf-8")
WORDS = Words.of(yaml.safe_load((PAGE / "words.yaml").read_text("utf-8")))
_UNSEEN = (
    {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"}
    | dict.fromkeys(range(127, 160), "\N{REPLACEMENT CHARACTER}")
    | dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")
)
"""Control characters and lone surrogates are not allowed in a page, so symbols stand for them."""


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The decision of a gate about a row, and the measures behind it. ``variant``: what was trained
    for the row."""

    subject: str
    check: str
    passed: bool
    evidence: str
    variant: str = ""


@dataclass(frozen=True, slots=True)
class PanelPicture:
    """One panel as an SVG. ``alt``: what it shows, in words."""

    alt: str
    svg: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure. The Markdown refers to ``name``.svg beside it; the HTML carries its panels itself.

    ``legend``: the labels of the lines, in the order of their colours. ``first``: it stands on the
    first screen of the HTML.
    """

    name: str
    title: str
    panels: tuple[PanelPicture, ...]
    legend: tuple[str, ...] = ()
    note: str = ""
    first: bool = False


@dataclass(frozen=True, slots=True)
class Highlight:
    """A key number. ``interval``: its lower and upper bound. ``note``: the verdict on it, or whose
    number it is."""

    label: str
    value: float | int
    note: str = ""
    interval: tuple[float, float] | None = None
    digits: int = 3

    def text(self) -> str:
        """The number, and its interval in brackets."""
        column = Column(self.label, self.digits)
        number = cell_text(self.value, column)
        if self.interval is None:
            return number
        low, high = (cell_text(float(bound), column) for bound in self.interval)
        return f"{number} [{low}, {high}]"


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A section of the page: heading, note, tables and pictures."""

    name: str
    title: str
    note: str = ""
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class Content:
    """What the pages are made of.

    ``summary``: what was run. ``note``: which profile made the numbers. ``highlights``: key numbers
    of the Markdown; in their place the HTML has ``intervals``, pictures of the first screen.
    ``origins``: the rows that numbers lead to. ``episodes``: trajectories to browse. A section
    without tables, pictures and note is left out.
    """

    title: str
    summary: str
    note: str
    highlights: Sequence[Highlight]
    sections: Sequence[ReportSection]
    intervals: Sequence[IntervalPicture] = ()
    origins: Sequence[RowOrigin] = ()
    episodes: Episodes | None = None

    @property
    def pictures(self) -> list[Picture]:
        """The pictures of all sections."""
        return [picture for section in self.sections for picture in section.pictures]


@dataclass(frozen=True, slots=True)
class Pages:
    """A report as HTML and as Markdown."""

    html: str
    markdown: str


def render(report: Content) -> Pages:
    """The report as HTML and as Markdown.

    Pictures of intervals, origins, trajectories and the measured seconds stand on the HTML page
    only, so that equal runs write equal Markdown.
    """
    filled = [one for one in report.sections if one.tables or one.pictures or one.note]
    timeless = [replace(one, tables=tuple(t.timeless() for t in one.tables)) for one in filled]
    return Pages(
        _html(replace(report, sections=filled)), _markdown(replace(report, sections=timeless))
    )


def verdict_table(verdicts: Sequence[GateVerdict], profile: str) -> Table:
    """Gate verdicts as given; a row that failed is withheld from the tables of results."""
    rows = [
        PrintedRow(
            one.subject,
            (one.check, "passed" if one.passed else "failed", one.evidence),
            systems=(one.variant,),
        )
        for one in verdicts
    ]
    columns = tuple(Column(name, text=True) for name in ("check", "verdict", "evidence"))
    note = "A row that fails a gate is withheld from the results."
    return Table("gates", "Verdicts", note, profile, columns, tuple(rows), head="Row")


def manifest_table(manifest: Sequence[Mapping[str, str | int]], profile: str) -> Table:
    """Where the data came from. Raises ValueError for records with different fields."""
    fields = [field for field in manifest[0] if field != "name"]
    if any([field for field in one if field != "name"] != fields for one in manifest):
        raise ValueError("records of the data manifest have different fields")
    rows = [PrintedRow(str(one["name"]), tuple(one[field] for field in fields)) for one in manifest]
    note = "Source, revision and hash of every set the numbers rest on."
    columns = tuple(Column(field, text=field != "rows") for field in fields)
    return Table("manifest", "Data sets", note, profile, columns, tuple(rows), head="Data set")


def _html(report: Content) -> str:
    """The page. Trajectories fill it up to ``PAGE_BYTES``."""
    episodes = report.episodes
    if episodes is None:
        return _document(report, "")
    none = replace(episodes, chosen=())
    bare = _document(report, markup(none, fit_episodes(none, 0), PAGE_BYTES))
    # 200 bytes are left for the sentences about how many trajectories are shown.
    budget = PAGE_BYTES - len(bare.encode("utf-8")) - 200
    return _document(report, markup(episodes, fit_episodes(episodes, budget), PAGE_BYTES))


def _document(report: Content, browser: str) -> str:
    first = [*report.intervals, *(one for one in report.pictures if one.first)]
    links = [("glance", "At a glance")] if first else []
    links += [(one.name, one.title) for one in report.sections]
    links += [("episodes", "Trajectories")] if browser else []
    links += [("rows", "Rows")] if report.origins else []
    stages = [stage for one in report.origins for stage in one.stages]
    page = TEMPLATES.get_template("page.html.j2").render(
        report=report,
        first=first,
        links=[*links, ("words", "Words")],
        linked={one.name for one in report.origins},
        codes={stage.fingerprint: stage.code for stage in stages},
        words=WORDS,
        not_run=NOT_RUN,
        policy=_policy(bool(browser)),
        style=Markup(_STYLE),
        browser=Markup(browser),
    )
    return page.translate(_UNSEEN)


def _policy(scripted: bool) -> str:
    script = f" script-src {source_hash(SCRIPT)};" if scripted else ""
    return (
        f"default-src 'none';{script} style-src {source_hash(_STYLE)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _markdown(report: Content) -> str:
    parts = [f"# {escape_markdown(report.title)}", f"> {escape_markdown(report.note)}"]
    parts += [escape_markdown(report.summary)] if report.summary else []
    if report.highlights:
        parts.append("\n".join(map(_markdown_highlight, report.highlights)))
    for section in report.sections:
        parts.append(f"## {escape_markdown(section.title)}")
        parts += [escape_markdown(section.note)] if section.note else []
        parts += [f"![{escape_markdown(p.title)}]({p.name}.svg)" for p in section.pictures]
        parts += [table.markdown().rstrip("\n") for table in section.tables]
    return "\n\n".join(parts) + "\n"


def _markdown_highlight(one: Highlight) -> str:
    note = f" ({escape_markdown(one.note)})" if one.note else ""
    return f"- {escape_markdown(one.label)}: {escape_markdown(one.text())}{note}"
