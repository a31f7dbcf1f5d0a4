"""A table as data, and its four forms: Markdown, CSV, LaTeX and HTML.

A table that names averages checks them when it is made: in every row the cell of an average must be
the average of the row's cells before rounding.
"""

import csv
import html
import io
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from cosearch.scores.averages import Average

Cell = str | int | float | None

_EMPTY = "–"
_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "±": r"$\pm$",
}
_MARKDOWN = {sign: "\\" + sign for sign in "\\|`*_[]"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


@dataclass(frozen=True, slots=True)
class Column:
    """``digits``: decimals of printed floats. ``signed``: positive numbers get a plus sign.
    ``text``: the column holds words, set flush left. ``clock``: it holds seconds, which differ
    from run to run."""

    name: str
    digits: int = 3
    signed: bool = False
    text: bool = False
    clock: bool = False


@dataclass(frozen=True, slots=True)
class PrintedRow:
    """A line of a table. ``status`` stands in place of numbers ("not run"). ``ruled``: a rule is
    drawn above it.

    ``basis``: numbers by name that are not printed but that a printed average is taken of.
    """

    label: str
    cells: tuple[Cell, ...]
    status: str | None = None
    ruled: bool = False
    basis: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its title, note and footnotes.

    ``profile``: the profile that made the numbers; every form, the CSV included, names it.
    ``averages``: the columns that hold an average, and how each follows from other columns or from
    the basis of the row. Raises ValueError for a row of another width, a float that is NaN or
    infinite, a wrong average, or an average whose cells are missing.
    """

    name: str
    title: str
    note: str
    profile: str
    columns: tuple[Column, ...]
    rows: tuple[PrintedRow, ...]
    footnotes: tuple[str, ...] = ()
    head: str = "System"
    averages: tuple[tuple[str, Average], ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if row.status is None and len(row.cells) != len(self.columns):
                raise ValueError(f"{self.name}: {row.label} has {len(row.cells)} cells")
            if any(isinstance(cell, float) and not math.isfinite(cell) for cell in row.cells):
                raise ValueError(f"{self.name}: {row.label} holds a float that is no number")
            if row.status is None:
                self._check_averages(row)

    def timeless(self) -> "Table":
        """The table without its columns of seconds."""
        kept = [place for place, column in enumerate(self.columns) if not column.clock]
        rows = [
            replace(row, cells=tuple(row.cells[place] for place in kept) if row.cells else ())
            for row in self.rows
        ]
        columns = tuple(self.columns[place] for place in kept)
        return replace(self, columns=columns, rows=tuple(rows))

    def _check_averages(self, row: PrintedRow) -> None:
        cells = self.numbers(row)
        for column, average in self.averages:
            if column not in cells:
                continue
            missing = sorted(set(average.weights) - set(cells))
            if missing:
                raise ValueError(f"{self.name}: {row.label} averages {missing}, which it lacks")
            if abs(cells[column] - average.of(cells)) > 1e-9:
                raise ValueError(
                    f"{self.name}: {row.label} prints {cells[column]} as its {average.name} "
                    f"average, its cells give {average.of(cells)}"
                )

    def numbers(self, row: PrintedRow) -> dict[str, float]:
        """The floats of a row by column, and its basis; empty where a status stands instead."""
        if row.status is not None:
            return {}
        pairs = zip(self.columns, row.cells, strict=True)
        return {**row.basis, **{of.name: cell for of, cell in pairs if isinstance(cell, float)}}

    def markdown(self) -> str:
        """GitHub Markdown with title, note and footnotes."""
        head = [self.head, *(column.name for column in self.columns)]
        lines = [f"### {escape_markdown(self.title)}", "", escape_markdown(self.note), ""]
        marks = ["---" if column.text else "---:" for column in self.columns]
        lines += [_piped(map(escape_markdown, head)), _piped(["---", *marks])]
        lines += [_piped(map(escape_markdown, self._texts(row))) for row in self.rows]
        if self.footnotes:
            lines += ["", *(f"- {escape_markdown(footnote)}" for footnote in self.footnotes)]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """CSV with six decimals; status and profile are the last columns."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names = [column.name for column in self.columns]
        writer.writerow([self.head, *names, "status", "profile"])
        for row in self.rows:
            cells = row.cells if row.status is None else (None,) * len(names)
            values = [_exact(cell) for cell in cells]
            writer.writerow([row.label, *values, row.status or "", self.profile])
        return text.getvalue()

    def latex(self) -> str:
        """A booktabs table."""
        lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(self.title)}. "]
        lines[-1] += f"{_latex(' '.join((self.note, *self.footnotes)))}}}"
        sides = "".join("l" if column.text else "r" for column in self.columns)
        lines += [rf"\begin{{tabular}}{{l{sides}}}", r"\toprule"]
        head = [self.head, *(column.name for column in self.columns)]
        lines += [" & ".join(map(_latex, head)) + r" \\", r"\midrule"]
        for row in self.rows:
            lines += [r"\midrule"] if row.ruled else []
            cells = [_latex(cell) for cell in self._texts(row)]
            if row.status is not None:
                span = rf"\multicolumn{{{len(self.columns)}}}{{c}}"
                cells = [cells[0], f"{span}{{{_latex(row.status)}}}"]
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"

    def html(self) -> str:
        """A ``figure`` element; every text is escaped."""
        head = "".join(
            f"<th{_side(column)}>{html.escape(column.name)}</th>" for column in self.columns
        )
        body = "\n".join(self._html_row(row) for row in self.rows)
        notes = "".join(f"<li>{html.escape(footnote)}</li>" for footnote in self.footnotes)
        return (
            f'<figure id="{html.escape(self.name)}">\n'
            f"<figcaption><b>{html.escape(self.title)}</b> {html.escape(self.note)}</figcaption>\n"
            f"<table>\n<thead><tr><th>{html.escape(self.head)}</th>{head}</tr></thead>\n"
            f"<tbody>\n{body}\n</tbody>\n</table>\n"
            + (f"<ul>{notes}</ul>\n" if notes else "")
            + "</figure>\n"
        )

    def _html_row(self, row: PrintedRow) -> str:
        label, *cells = (html.escape(cell) for cell in self._texts(row))
        start = ('<tr class="ruled">' if row.ruled else "<tr>") + f"<th>{label}</th>"
        if row.status is not None:
            span = len(self.columns)
            return f'{start}<td class="status" colspan="{span}">{html.escape(row.status)}</td></tr>'
        pairs = zip(cells, self.columns, strict=True)
        return start + "".join(f"<td{_side(of)}>{cell}</td>" for cell, of in pairs) + "</tr>"

    def _texts(self, row: PrintedRow) -> list[str]:
        """The row as texts; a status stands in the first cell."""
        if row.status is not None:
            return [row.label, row.status, *[_EMPTY] * (len(self.columns) - 1)]
        pairs = zip(row.cells, self.columns, strict=True)
        return [row.label, *(cell_text(cell, column) for cell, column in pairs)]


def cell_text(cell: Cell, column: Column) -> str:
    """One cell as a reader sees it. A number that rounds to 0 is printed without a minus."""
    if cell is None:
        return _EMPTY
    if not isinstance(cell, float):
        return str(cell)
    text = f"{cell:{'+' if column.signed else ''}.{column.digits}f}"
    return text.replace("-", "+" if column.signed else "") if float(text) == 0 else text


def _side(column: Column) -> str:
    return ' class="text"' if column.text else ""


def _exact(cell: Cell) -> str:
    if cell is None:
        return ""
    return cell_text(cell, Column("", 6)) if isinstance(cell, float) else str(cell)


def _escaper(signs: dict[str, str]) -> Callable[[str], str]:
    table = str.maketrans(signs)
    return lambda text: " ".join(text.split()).translate(table)


escape_markdown = _escaper(_MARKDOWN)
_latex = _escaper(_LATEX)


def _piped(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
