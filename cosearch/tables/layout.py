"""A table as data, and its forms as text: Markdown, CSV and LaTeX.

A table that names averages checks them when it is made: in every row the cell of an average must be
the average of the row's cells before rounding.
"""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cosearch.scores.averages import Average

Cell = str | int | float | None

NOISE_DIGITS = 9
"""Decimals beyond which two ways to compute a number may differ."""

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
    ``systems``: the system whose numbers these are; where the cells are of several systems, one
    for each cell, empty where a cell is of none.
    """

    label: str
    cells: tuple[Cell, ...]
    status: str | None = None
    ruled: bool = False
    basis: Mapping[str, float] = field(default_factory=dict)
    systems: tuple[str, ...] = ()

    def system_of(self, place: int) -> str | None:
        """The system behind the cell at ``place``; None where no system alone is."""
        if len(self.systems) == 1:
            return self.systems[0]
        return (self.systems[place] or None) if self.systems else None


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

        def cut(values: tuple[Any, ...]) -> tuple[Any, ...]:
            whole = len(values) == len(self.columns)
            return tuple(values[place] for place in kept) if whole else values

        rows = [replace(row, cells=cut(row.cells), systems=cut(row.systems)) for row in self.rows]
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
        lines += [_piped(map(escape_markdown, self.texts(row))) for row in self.rows]
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
            cells = [_latex(cell) for cell in self.texts(row)]
            if row.status is not None:
                span = rf"\multicolumn{{{len(self.columns)}}}{{c}}"
                cells = [cells[0], f"{span}{{{_latex(row.status)}}}"]
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"

    def texts(self, row: PrintedRow) -> list[str]:
        """The row as a reader sees it; a status stands in the first cell."""
        if row.status is not None:
            return [row.label, row.status, *[_EMPTY] * (len(self.columns) - 1)]
        pairs = zip(row.cells, self.columns, strict=True)
        return [row.label, *(cell_text(cell, column) for cell, column in pairs)]


def cell_text(cell: Cell, column: Column) -> str:
    """One cell as a reader sees it. A number that rounds to 0 is printed without a minus, and one
    in the middle of two roundings is printed alike, however it was computed."""
    if cell is None:
        return _EMPTY
    if not isinstance(cell, float):
        return str(cell)
    value = round(cell, NOISE_DIGITS)
    text = f"{value:{'+' if column.signed else ''}.{column.digits}f}"
    return text.replace("-", "+" if column.signed else "") if float(text) == 0 else text


def signed_text(value: float) -> str:
    """A difference as a reader sees it, with its sign and the digits of a column."""
    return cell_text(value, Column("", signed=True))


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
