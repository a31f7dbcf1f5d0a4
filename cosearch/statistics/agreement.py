"""How two runs of the same tables agree: which cells differ, and whether intervals allow that.

Two machines that compute in another order end with other numbers. Where a table prints an interval
of a difference, one run's difference must lie in the other run's interval. A score of a data set
lies between 0 and 1, so the number of questions alone bounds its interval (Wilson). Every other
number is shown, and decides nothing.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from math import sqrt
from statistics import NormalDist

NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
LOW = re.compile(r"(?P<level>\d+)% low(?P<after>.*)")
"""The column of an interval's lower bound; ``after`` ends the names of its five columns."""
VERDICT = "verdict"
COUNTS = ("questions", "seeds")
"""How columns begin that hold how much was measured, which is the same in equal runs."""
LEVEL = 0.95

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Difference:
    """A cell that differs. ``there``, ``here``: what the two runs print. ``bounds``: the interval
    around the number there. ``allowed``: whether noise explains it; None where no interval does
    or could."""

    table: str
    row: str
    column: str
    there: str
    here: str
    bounds: Bounds | None = None
    allowed: bool | None = None

    @property
    def verdict(self) -> bool:
        """Whether the cell is a verdict."""
        return self.column.startswith(VERDICT)

    @property
    def relative(self) -> float:
        """How far the number here is from the one there, as a share of the larger one; 0 where a
        cell is no number."""
        if not (NUMBER.fullmatch(self.there) and NUMBER.fullmatch(self.here)):
            return 0.0
        there, here = float(self.there), float(self.here)
        return abs(there - here) / max(abs(there), abs(here))


def differing_cells(
    table: str, there: str, here: str, questions: Mapping[str, int]
) -> list[Difference]:
    """Cells in which two CSV tables differ; one that says so where they differ in layout.

    ``questions``: data set -> the number of its questions, for columns that hold scores.
    """
    old, new = (list(csv.reader(StringIO(text))) for text in (there, here))
    if old[:1] != new[:1] or len(old) != len(new):
        return [_layout(table, old, new)]
    heads = old[0] if old else []
    found: list[Difference] = []
    for before, after in zip(old[1:], new[1:], strict=True):
        found += _of_row(table, heads, before, after, questions)
    return found


def questions_of(detectable: str) -> dict[str, int]:
    """Data set -> its number of questions, of the table of what they can show. Averages, which
    have no interval of this kind, are left out."""
    rows = csv.DictReader(StringIO(detectable))
    head = (rows.fieldnames or ("",))[0]
    return {row[head]: int(row["questions"]) for row in rows if "(" not in row[head]}


def json_table(text: str) -> str:
    """A JSON object of plain values as a table of one row."""
    told = json.loads(text)
    lines = StringIO()
    csv.writer(lines).writerows([told.keys(), told.values()])
    return lines.getvalue()


def without_numbers(text: str) -> str:
    """A text with every number and mark of the best one taken out, and blanks made one."""
    return " ".join(NUMBER.sub("#", text).replace("*", "").replace("−", "").split())


def wilson(share: float, count: int, level: float = LEVEL) -> Bounds:
    """The interval of a mean of ``count`` values between 0 and 1, at its widest: all are 0 or 1."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * sqrt(share * (1 - share) / count + z * z / (4 * count**2)) / (1 + z * z / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def _layout(table: str, old: list[list[str]], new: list[list[str]]) -> Difference:
    there, here = (
        f"{len(rows[0]) if rows else 0} columns, {len(rows)} lines" for rows in (old, new)
    )
    return Difference(table, "", "layout", there, here, allowed=False)


def _of_row(
    table: str, heads: list[str], old: list[str], new: list[str], questions: Mapping[str, int]
) -> Iterator[Difference]:
    """Differences of one row. Its name is its first cell, and the metric behind it."""
    name = ", ".join(old[: 2 if heads[1:2] == ["metric"] else 1])
    wanted, have = (dict(zip(heads, cells, strict=False)) for cells in (old, new))
    for column in heads:
        a, b = wanted.get(column, ""), have.get(column, "")
        if a == b:
            continue
        bounds, allowed = None, _alike(a, b, column)
        if allowed is None and NUMBER.fullmatch(a):
            bounds, allowed = _within(column, wanted, have, questions)
        yield Difference(table, name, column, a, b, bounds, allowed)


def _alike(there: str, here: str, column: str) -> bool | None:
    """False where noise cannot explain two cells; None where both are numbers of the same kind."""
    if column.startswith((VERDICT, *COUNTS)) or without_numbers(there) != without_numbers(here):
        return False
    return None


def _within(
    column: str, there: Mapping[str, str], here: Mapping[str, str], questions: Mapping[str, int]
) -> tuple[Bounds | None, bool | None]:
    """The interval around a number there, and whether it holds the number here, or that around the
    number here the one there."""
    values = float(there[column]), float(here[column])
    if count := questions.get(column):
        old, new = (wilson(min(max(value, 0.0), 1.0), count) for value in values)
    else:
        found = _printed(column, there), _printed(column, here)
        if found[0] is None or found[1] is None:
            return None, None
        old, new = found[0], found[1]
    return old, old[0] <= values[1] <= old[1] or new[0] <= values[0] <= new[1]


def _printed(column: str, row: Mapping[str, str]) -> Bounds | None:
    """The interval that a row prints beside its difference."""
    for name in row:
        if (low := LOW.fullmatch(name)) and column == f"difference{low['after']}":
            high = f"{low['level']}% high{low['after']}"
            if row[name] and row.get(high):
                return float(row[name]), float(row[high])
    return None
