"""The report: one self-contained HTML page, and the same as Markdown.

The page asks nothing of a network (a content policy forbids it), runs no script, and escapes every
text it is given: questions and passages are other people's.
"""

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cosearch.evaluation.layout import Column, Row, Table, escape_markdown

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_CSS = """
:root { color-scheme: light dark; --ink: #1c1c1e; --soft: #6b6b70; --line: #d9d9de;
  --paper: #fff; --shade: #f5f5f7; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececee; --soft: #a0a0a6; --line: #3a3a3f;
  --paper: #161618; --shade: #222225; } }
body { margin: 0 auto; max-width: 68rem; padding: 2rem 1.25rem 4rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
p.note { margin: .75rem 0; padding: .5rem .75rem; background: var(--shade);
  border-left: 3px solid #d55e00; }
nav { margin: 1rem 0; } nav a { margin-right: 1rem; color: inherit; }
figure { margin: 1.5rem 0 2rem; overflow-x: auto; }
figcaption { margin-bottom: .5rem; color: var(--soft); font-size: .87rem; }
figcaption b { display: block; color: var(--ink); font-size: 1rem; }
figure ul { color: var(--soft); font-size: .82rem; padding-left: 1.1rem; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; white-space: nowrap; }
th:first-child { text-align: left; font-weight: 500; }
thead th { border-bottom: 1.5px solid var(--ink); font-weight: 600; }
tbody tr { border-bottom: 1px solid var(--line); } tr.ruled { border-top: 1.5px solid var(--ink); }
tbody tr:hover { background: var(--shade); }
.text { text-align: left; } td.text { white-space: normal; overflow-wrap: anywhere; }
td.status { color: var(--soft); font-style: italic; text-align: left; white-space: normal; }
img { max-width: 100%; background: #fff; }
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate says about a trained or evaluated row, and on what evidence."""

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
class Section:
    """A heading, tables and pictures."""

    name: str
    title: str
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class Pages:
    """The two faces of a report."""

    html: str
    markdown: str


def render(
    *,
    title: str,
    profile: str,
    note: str,
    results: Sequence[Table],
    behaviour: Sequence[Table],
    pictures: Sequence[Picture],
    verdicts: Sequence[Verdict],
    manifest: Sequence[Mapping[str, str | int]],
) -> Pages:
    """The report of one profile. ``note`` says what kind of numbers these are and stands on top.

    ``results``: main table, oracle table, comparisons. ``behaviour``: retrieval, searches, cost.
    ``manifest``: one record per data set (``name``, source, revision, split, rows, sha256).
    """
    sections = [
        Section("results", "Results", tables=tuple(results)),
        Section("behaviour", "Behaviour and cost", tables=tuple(behaviour)),
        Section("curves", "Learning curves", pictures=tuple(pictures)),
        Section("gates", "Gates", tables=(verdict_table(verdicts, profile),) if verdicts else ()),
        Section("data", "Data", tables=(manifest_table(manifest, profile),) if manifest else ()),
    ]
    filled = [section for section in sections if section.tables or section.pictures]
    return Pages(_html(title, note, filled), _markdown(title, note, filled))


def verdict_table(verdicts: Sequence[Verdict], profile: str) -> Table:
    """Gate verdicts as given; a row that failed is withheld from the tables of results."""
    rows = [
        Row(one.subject, (one.check, "passed" if one.passed else "failed", one.evidence))
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
    rows = [Row(str(one["name"]), tuple(one[field] for field in fields)) for one in manifest]
    note = "Source, revision and hash of every set the numbers rest on."
    columns = tuple(Column(field, text=field != "rows") for field in fields)
    return Table("manifest", "Data sets", note, profile, columns, tuple(rows), head="Data set")


def _html(title: str, note: str, sections: Sequence[Section]) -> str:
    links = "".join(
        f'<a href="#section-{one.name}">{html.escape(one.title)}</a>' for one in sections
    )
    body = "\n".join(map(_html_section, sections))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        f'<h1>{html.escape(title)}</h1>\n<p class="note">{html.escape(note)}</p>\n'
        f"<nav>{links}</nav>\n{body}\n</body>\n</html>\n"
    )


def _html_section(section: Section) -> str:
    heading = f'<h2 id="section-{section.name}">{html.escape(section.title)}</h2>'
    pictures = map(_html_picture, section.pictures)
    return "\n".join([heading, *pictures, *(table.html() for table in section.tables)])


def _html_picture(picture: Picture) -> str:
    """The picture as an image of its own, so that nothing in it can reach the page."""
    data = base64.b64encode(picture.svg.encode("utf-8")).decode("ascii")
    title = html.escape(picture.title)
    return (
        f"<figure><figcaption><b>{title}</b></figcaption>\n"
        f'<img alt="{title}" src="data:image/svg+xml;base64,{data}"></figure>'
    )


def _markdown(title: str, note: str, sections: Sequence[Section]) -> str:
    parts = [f"# {escape_markdown(title)}", f"> {escape_markdown(note)}"]
    for section in sections:
        parts.append(f"## {escape_markdown(section.title)}")
        parts += [f"![{escape_markdown(p.title)}]({p.name}.svg)" for p in section.pictures]
        parts += [table.markdown().rstrip("\n") for table in section.tables]
    return "\n\n".join(parts) + "\n"
