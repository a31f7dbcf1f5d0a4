"""Ours beside the published numbers, with a verdict (profile ``paper`` only)."""

from collections.abc import Iterator, Mapping, Sequence

from cosearch.paper.published import main_cells, methods
from cosearch.scores.averages import Average
from cosearch.statistics.bootstrap import Interval
from cosearch.statistics.comparisons import Statistics, value_interval
from cosearch.statistics.results import (
    Block,
    Result,
    Scope,
    TableRow,
    by_system,
    datasets,
    row_status,
)
from cosearch.tables.layout import Column, Row, Table

PRINTED_HALF = 5e-4
"""Half of the last printed digit of the paper's F1."""


def verdict(paper: float, ours: Interval) -> str:
    """Where ours stands: ``agrees``, ``below`` or ``above`` the published number.

    It agrees when some value that prints as ``paper`` lies in the interval of ours.
    """
    if ours.high < paper - PRINTED_HALF:
        return "below"
    return "above" if ours.low > paper + PRINTED_HALF else "agrees"


def published_table(
    results: Sequence[Result],
    *,
    scope: Scope,
    statistics: Statistics,
    status: Mapping[str, str],
    block: Block,
) -> Table:
    """Every number of Table 2 for one agent size: the paper's, ours, its interval, the verdict.

    The interval is over our questions only: the paper's own sampling error is not known. Averages
    of the paper are recomputed from its cells. Raises ValueError where no published number may
    stand beside ours.
    """
    backbone = block.published(scope)
    if backbone is None:
        raise ValueError(f"block {block.name}, profile {scope.profile}: no number is comparable")
    chosen = block.chosen(results, scope)
    systems, names = by_system(chosen), datasets(chosen, scope)
    rows = []
    for row in (row for row in block.rows if row.label in methods()):
        why = row_status(row.system, systems, status)
        if why is not None:
            rows.append(Row(row.label, (), why))
            continue
        rows += _rows(row, systems[row.system], backbone, names, scope, statistics)
    level = f"{statistics.level:.0%}"
    return Table(
        f"published_{block.name}",
        f"Beside the published numbers, {block.name} agent (Table 2)",
        scope.note(
            f"Paper: {backbone}; F1, rule {scope.rule}",
            f"{level} percentile interval of ours, {statistics.draws} bootstrap draws",
            "agrees: a value that prints as the paper's lies in the interval",
        ),
        scope.profile,
        (
            Column("paper"),
            Column("ours"),
            Column("ours - paper", signed=True),
            Column(f"{level} low"),
            Column(f"{level} high"),
            Column("verdict", text=True),
        ),
        tuple(rows),
        head="Method, data set",
    )


def _rows(
    row: TableRow,
    seeds: Sequence[Result],
    backbone: str,
    names: Sequence[str],
    scope: Scope,
    statistics: Statistics,
) -> Iterator[Row]:
    paper = main_cells(row.label, backbone)
    looks = {name: Average(name, {name: 1.0}) for name in names}
    looks[f"avg ({scope.average})"] = scope.average_of(names)
    for name, look in looks.items():
        if not set(look.weights) <= set(paper):
            continue
        ours = value_interval(seeds, scope.f1, average=look, statistics=statistics)
        printed = look.of(paper)
        difference = ours.estimate - printed
        cells = (printed, ours.estimate, difference, ours.low, ours.high, verdict(printed, ours))
        yield Row(f"{row.label}, {name}", cells)
