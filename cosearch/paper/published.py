"""The paper's printed numbers, read from the product's own copy in ``expected/``."""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from cosearch.scores.averages import Average

AVERAGE = "avg"
"""The data set name under which the paper's tables print their average."""


@dataclass(frozen=True, slots=True)
class Published:
    """One printed value. ``dataset`` is in lower case, as in params.yaml."""

    method: str
    backbone: str
    dataset: str
    metric: str
    value: str


EXPECTED = files("cosearch.paper").joinpath("expected")
"""The product's copies of the paper's tables, claims and curves."""

OURS, ORACLE = "CoSearch", "Oracle"
"""The methods that the text of the paper compares most."""

LATER_NAMES = {"Fixed Ranker": "Fixed Reranker"}
"""A method's name in Table 2 -> its name in Table 7 and the figures."""


def read_published(folder: Traversable, name: str) -> tuple[Published, ...]:
    """The rows of ``name``.csv in printed order."""
    text = folder.joinpath(f"{name}.csv").read_text("utf-8")
    return tuple(
        Published(**{**row, "dataset": row["dataset"].casefold()})
        for row in csv.DictReader(io.StringIO(text, newline=""))
    )


@cache
def published(number: int) -> tuple[Published, ...]:
    """The rows of the paper's table ``number`` in printed order."""
    return read_published(EXPECTED, f"table{number}")


def methods() -> tuple[str, ...]:
    """The ten methods of Table 2 in the paper's order."""
    return tuple(dict.fromkeys(row.method for row in published(2)))


def main_cells(method: str, backbone: str) -> dict[str, float]:
    """Table 2's F1 per data set, and the printed average under ``avg``. Empty if there is none."""
    return _cells(2, method, backbone)


def gap_cells(method: str, backbone: str) -> dict[str, float]:
    """Table 1's F1 (``Standard``, ``Oracle Retrieval``) or gain (``Rel. Gain``) by kind."""
    cells = _cells(1, method, backbone)
    return {name.removesuffix("_hop"): value for name, value in cells.items()}


def ablation_cells(method: str, backbone: str) -> dict[str, float]:
    """Table 3's F1 ``single`` and ``multi``, and ``avg`` as printed; empty without numbers."""
    cells = _cells(3, method, backbone)
    return {name.removesuffix("_hop"): value for name, value in cells.items()}


def grid_cells(method: str, backbone: str) -> dict[int, float]:
    """Table 4's average F1 per K."""
    return {
        int(row.metric.removeprefix("F1@K=")): float(row.value)
        for row in published(4)
        if (row.method, row.backbone) == (method, backbone) and row.metric.startswith("F1@K=")
    }


def searches_cells(method: str, backbone: str) -> dict[str, float]:
    """Table 7: percent of questions per number of searches ("0" to "6"), and ``mean``.

    Empty for another ``backbone`` than that of Table 3: Table 7 names no agent, and the paper's
    other analyses all use that one.
    """
    if backbone != published(3)[0].backbone:
        return {}
    name = LATER_NAMES.get(method, method)
    rows = [row for row in published(7) if row.method == name]
    return {
        "mean" if row.metric == "avg_search_turns" else row.metric.partition("=")[2]: float(
            row.value
        )
        for row in rows
    }


def figure_curve(metric: str, method: str) -> dict[int, float]:
    """Training step -> value of a published curve, such as ``fig2c_turns`` of CoSearch."""
    return curve_of(figure_points(), metric, LATER_NAMES.get(method, method))


def curve_of(points: Iterable[Published], metric: str, method: str) -> dict[int, float]:
    """Training step -> value of one curve among the points of the figures."""
    return {
        int(row.metric.rpartition("@step=")[2]): float(row.value)
        for row in points
        if row.method == method and row.metric.rpartition("@step=")[0] == metric
    }


@cache
def figure_points() -> tuple[Published, ...]:
    """The points of Figures 2 and 3."""
    return read_published(EXPECTED, "figures_vector")


def _cells(number: int, method: str, backbone: str) -> dict[str, float]:
    return {
        row.dataset: float(row.value)
        for row in published(number)
        if (row.method, row.backbone) == (method, backbone) and row.metric in ("F1", "rel_gain_pct")
    }


def average_fault(cells: Mapping[str, float], average: Average) -> float | None:
    """The average of the printed cells, or None where the printed average may be a rounding of it.

    Cells and average are each rounded by at most 0.0005, so they may differ by up to 0.001.
    """
    value = average.of(cells)
    return value if abs(value - cells[AVERAGE]) > 1e-3 + 1e-9 else None
