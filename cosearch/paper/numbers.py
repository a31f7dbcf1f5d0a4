"""The printed numbers of the paper as ranges: the values that each printed number may stand for."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable

from cosearch.paper.published import Published, curve_of, read_published
from cosearch.scores.averages import Average, average
from cosearch.statistics.rounding import ValueRange, printed_range

TABLES = (1, 2, 3, 4, 7)

SETS = {
    "nq": "single",
    "triviaqa": "single",
    "popqa": "single",
    "hotpotqa": "multi",
    "2wikimultihopqa": "multi",
    "musique": "multi",
    "bamboogle": "multi",
}
"""The paper's seven sets and their kind (Section 4.1)."""

MACRO = average("macro", SETS)
GROUP_MEANS: Mapping[str, Average] = {
    "macro": Average("macro", {"single_hop": 3 / 7, "multi_hop": 4 / 7}),
    "macro_groups": Average("macro_groups", {"single_hop": 0.5, "multi_hop": 0.5}),
}
"""The two averages that Tables 1 and 3 may print, over their single-hop and multi-hop columns."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the text: ``printed`` is a number, a range ``a to b``, or ``true``."""

    section: str
    claim: str
    printed: str
    expression: str


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A printed number that other printed numbers contradict.

    ``computed``: the value that follows from the other numbers, None where none follows.
    """

    kind: str
    where: str
    printed: str
    computed: ValueRange | str | None
    note: str

    @property
    def shown(self) -> str | None:
        """The computed value as a reader sees it."""
        return None if self.computed is None else str(self.computed)


@dataclass(frozen=True, slots=True)
class Paper:
    """Tables, claims and figure points of one copy of ``expected/``."""

    tables: Mapping[int, tuple[Published, ...]]
    claims: tuple[Claim, ...]
    points: tuple[Published, ...]

    def methods(self, number: int) -> list[str]:
        """Methods of a table in printed order."""
        return list(dict.fromkeys(row.method for row in self.tables[number]))

    def backbones(self, number: int) -> list[str]:
        """Agent models of a table in printed order."""
        return list(dict.fromkeys(row.backbone for row in self.tables[number]))

    def texts(self, number: int, method: str, backbone: str) -> dict[str, str]:
        """Printed cells of a row by data set (or group of sets, or ``avg``); numbers only."""
        return {
            row.dataset: row.value
            for row in self.tables[number]
            if (row.method, row.backbone) == (method, backbone) and row.metric != "status"
        }

    def cells(self, number: int, method: str, backbone: str) -> dict[str, ValueRange]:
        """The same cells as ranges of values."""
        return {
            name: printed_range(text) for name, text in self.texts(number, method, backbone).items()
        }

    def by_metric(self, number: int, method: str, prefix: str) -> dict[str, ValueRange]:
        """Cells of a method whose metric starts with ``prefix``, by the rest of its name."""
        return {
            row.metric.removeprefix(prefix): printed_range(row.value)
            for row in self.tables[number]
            if row.method == method and row.metric.startswith(prefix)
        }

    def curve(self, metric: str, method: str) -> dict[int, float]:
        """Step -> value of a published curve."""
        return curve_of(self.points, metric, method)


def read_paper(folder: Traversable) -> Paper:
    """Read a copy of ``expected/``."""
    text = folder.joinpath("claims.csv").read_text("utf-8")
    return Paper(
        {number: read_published(folder, f"table{number}") for number in TABLES},
        tuple(Claim(**row) for row in csv.DictReader(io.StringIO(text, newline=""))),
        read_published(folder, "figures_vector"),
    )
