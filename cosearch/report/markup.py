"""The report: one self-contained HTML page, and the same as Markdown.

The page loads nothing from a network. Its content policy forbids that and allows one style and,
where there are trajectories to browse, one script, both by hash. Every text is escaped, because
questions, passages and outputs of models are untrusted.
"""

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from cosearch.report.browser import SCRIPT, fit_episodes, markup, source_hash
from cosearch.report.episodes import Episodes
from cosearch.tables.layout import Column, PrintedRow, Table, cell_text, escape_markdown

PAGE_BYTES = 6_000_000
"""Largest size of the HTML page; trajectories beyond it are left out."""

_STYLE = (files("cosearch.report") / "page" / "report.css").read_text("utf-8")
_UNSEEN = (
    {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"}
    | dict.fromkeys(range(127, 160), "\N{REPLACEMENT CHARACTER}")
    | dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")
)
"""Control characters and lone surrogates are not allowed in a page, so symbols stand for them."""


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The decision of a gate about a row, and the measures behind it."""

    subject: str
    check: str
    passed: bool
    evidence: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure. The Markdown refers to ``name``.svg beside it; the HTML carries ``svg`` itself."""

    name: str
    title: str
    svg: str


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
class Pages:
    """A report as HTML and as Markdown."""

    html: str
    markdown: str


def render(
    *,
    title: str,
    summary: str,
    note: str,
    highlights: Sequence[Highlight],
    sections: Sequence[ReportSection],
    episodes: Episodes | None = None,
) -> Pages:
    """The report of one profile. A section without tables, pictures and note is left out.

    ``summary``: what was run. ``note``: which profile made the numbers; it stands on top.
    ``episodes``: trajectories to browse. They and the measured seconds stand on the HTML page only,
    so that equal runs write equal Markdown.
    """
    filled = [one for one in sections if one.tables or one.pictures or one.note]
    top = _Top(title, summary, note, highlights)
    timeless = [replace(one, tables=tuple(t.timeless() for t in one.tables)) for one in filled]
    return Pages(_html(top, filled, episodes), _markdown(top, timeless))


@dataclass(frozen=True, slots=True)
class _Top:
    """The texts above the first section."""

    title: str
    summary: str
    note: str
    highlights: Sequence[Highlight]


def verdict_table(verdicts: Sequence[GateVerdict], profile: str) -> Table:
    """Gate verdicts as given; a row that failed is withheld from the tables of results."""
    rows = [
        PrintedRow(one.subject, (one.check, "passed" if one.passed else "failed", one.evidence))
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


def _html(top: _Top, sections: Sequence[ReportSection], episodes: Episodes | None) -> str:
    """The page. Trajectories fill it up to ``PAGE_BYTES``."""
    if episodes is None:
        return _document(top, sections, "")
    none = replace(episodes, chosen=())
    bare = _document(top, sections, markup(none, fit_episodes(none, 0), PAGE_BYTES))
    # 200 bytes are left for the sentences about how many trajectories are shown.
    budget = PAGE_BYTES - len(bare.encode("utf-8")) - 200
    return _document(top, sections, markup(episodes, fit_episodes(episodes, budget), PAGE_BYTES))


def _document(top: _Top, sections: Sequence[ReportSection], browser: str) -> str:
    links = [(one.name, one.title) for one in sections]
    links += [("episodes", "Trajectories")] if browser else []
    anchors = "".join(f'<a href="#section-{name}">{html.escape(t)}</a>' for name, t in links)
    title = html.escape(top.title)
    body = "\n".join((_html_top(top), *map(_html_section, sections), browser))
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(bool(browser))}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<header><b>{title}</b><nav aria-label="Sections">{anchors}</nav></header>\n'
        f"<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
    return page.translate(_UNSEEN)


def _policy(scripted: bool) -> str:
    script = f" script-src {source_hash(SCRIPT)};" if scripted else ""
    return (
        f"default-src 'none';{script} style-src {source_hash(_STYLE)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _html_top(top: _Top) -> str:
    items = "".join(
        f"<li>{html.escape(one.label)}<b>{html.escape(one.text())}</b>"
        f"<small>{html.escape(one.note)}</small></li>"
        for one in top.highlights
    )
    return (
        f'<h1>{html.escape(top.title)}</h1>\n<p class="note">{html.escape(top.note)}</p>\n'
        f"<p>{html.escape(top.summary)}</p>\n"
        + (f'<ul class="highlights">{items}</ul>' if items else "")
    )


def _html_section(section: ReportSection) -> str:
    heading = f"<h2>{html.escape(section.title)}</h2>"
    words = [f"<p>{html.escape(section.note)}</p>"] if section.note else []
    parts = [heading, *words, *map(_html_picture, section.pictures), *map(_boxed, section.tables)]
    return f'<section id="section-{section.name}">\n' + "\n".join(parts) + "\n</section>"


def _boxed(table: Table) -> str:
    """A table in a scrolling box of its own. Texts are escaped, so only real tags are replaced."""
    boxed = table.html().replace("<table>", '<div class="box" tabindex="0"><table>')
    return boxed.replace("</table>", "</table></div>")


def _html_picture(picture: Picture) -> str:
    """The picture as an image, so that a script or a style inside it has no effect on the page."""
    data = base64.b64encode(picture.svg.encode("utf-8")).decode("ascii")
    title = html.escape(picture.title)
    return (
        f"<figure><figcaption><b>{title}</b></figcaption>\n"
        f'<img alt="{title}" src="data:image/svg+xml;base64,{data}"></figure>'
    )


def _markdown(top: _Top, sections: Sequence[ReportSection]) -> str:
    parts = [f"# {escape_markdown(top.title)}", f"> {escape_markdown(top.note)}"]
    parts += [escape_markdown(top.summary)] if top.summary else []
    if top.highlights:
        parts.append("\n".join(map(_markdown_highlight, top.highlights)))
    for section in sections:
        parts.append(f"## {escape_markdown(section.title)}")
        parts += [escape_markdown(section.note)] if section.note else []
        parts += [f"![{escape_markdown(p.title)}]({p.name}.svg)" for p in section.pictures]
        parts += [table.markdown().rstrip("\n") for table in section.tables]
    return "\n\n".join(parts) + "\n"


def _markdown_highlight(one: Highlight) -> str:
    note = f" ({escape_markdown(one.note)})" if one.note else ""
    return f"- {escape_markdown(one.label)}: {escape_markdown(one.text())}{note}"
