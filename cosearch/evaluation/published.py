"""The paper's printed numbers, from the product's own copy in ``expected/``."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from cosearch.evaluation.averages import Average

AVERAGE = "avg"
"""The data set name under which the paper's tables print their average."""


@dataclass(frozen=True, slots=True)
class Published:
    """One printed value. ``dataset`` is folded to the names of params.yaml."""

    method: str
    backbone: str
    dataset: str
    metric: str
    value: str


@cache
def published(number: int) -> tuple[Published, ...]:
    """The rows of the paper's table ``number`` in printed order."""
    text = (
        files("cosearch.evaluation").joinpath("expected", f"table{number}.csv").read_text("utf-8")
    )
    return tuple(
        Published(**{**row, "dataset": row["dataset"].casefold()})
        for row in csv.DictReader(text.splitlines())
    )


def methods() -> tuple[str, ...]:
    """The ten methods of Table 2 in the paper's order."""
    return tuple(dict.fromkeys(row.method for row in published(2)))


def main_cells(method: str, backbone: str) -> dict[str, float]:
    """Table 2's F1 per data set, and the printed average under ``avg``. Empty if there is none."""
    return {
        row.dataset: float(row.value)
        for row in published(2)
        if (row.method, row.backbone) == (method, backbone)
    }


def average_fault(cells: Mapping[str, float], average: Average) -> float | None:
    """The average of printed cells where the printed average is not a rounding of it, else None.

    Cells are rounded to half of 0.001, and so is the average: up to 0.001 is no fault.
    """
    value = average.of(cells)
    return value if abs(value - cells[AVERAGE]) > 1e-3 + 1e-9 else None
