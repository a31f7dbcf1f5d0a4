"""Ours beside the published numbers, with a verdict (profile ``paper`` only)."""

from collections.abc import Iterator

from cosearch.paper.published import main_cells, methods
from cosearch.params.rows import TableBlock, TableRow
from cosearch.scores.averages import single_sets
from cosearch.statistics.bootstrap import Interval
from cosearch.statistics.comparisons import value_interval
from cosearch.statistics.results import ResultSet
from cosearch.tables.block_rows import SEEDS
from cosearch.tables.contrasts import interval_note
from cosearch.tables.layout import Column, PrintedRow, Table

PRINTED_HALF = 5e-4
"""Half of the last printed digit of the paper's F1."""


def verdict(paper: float, ours: Interval) -> str:
    """Where ours stands: ``agrees``, ``below`` or ``above`` the published number.

    It agrees when some value that prints as ``paper`` lies in the interval of ours. Where ours has
    too few questions or seeds for a verdict, that stands in its place.
    """
    if ours.unproven:
        return ours.unproven
    if ours.high < paper - PRINTED_HALF:
        return "below"
    return "above" if ours.low > paper + PRINTED_HALF else "agrees"


def published_table(results: ResultSet, block: TableBlock) -> Table:
    """Every number of Table 2 for one agent size: the paper's, ours, its interval, the verdict.

    The interval is over our questions only, because the paper's own sampling error is unknown.
    Averages of the paper are recomputed from its cells. Raises ValueError where no published
    number may stand beside ours.
    """
    scope, statistics = results.scope, results.statistics
    backbone = scope.published(block.backbone)
    if backbone is None:
        raise ValueError(f"block {block.name}, profile {scope.profile}: no number is comparable")
    chosen = results.of_block(block)
    printed = [row for row in block.rows if row.label in methods()]
    level = f"{statistics.level:.0%}"
    return Table(
        f"published_{block.name}",
        f"Beside the published numbers, {block.name} agent (Table 2)",
        scope.note(
            f"Paper: {backbone}; F1, rule {scope.rule}",
            f"Of ours: {interval_note(chosen)}",
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
            SEEDS,
        ),
        tuple(line for row in printed for line in _rows(chosen, row, backbone)),
        head="Method, data set",
    )


def _rows(chosen: ResultSet, row: TableRow, backbone: str) -> Iterator[PrintedRow]:
    """One row per data set that the paper prints and one for the average, or why there is none."""
    why = chosen.missing(row.system)
    if why is not None:
        yield PrintedRow(row.label, (), why, systems=(row.system,))
        return
    paper, scope = main_cells(row.label, backbone), chosen.scope
    looks = single_sets(chosen.datasets) | {f"avg ({scope.average})": chosen.average}
    seeds = chosen.seeds_of(row.system)
    for name, look in looks.items():
        if not set(look.weights) <= set(paper):
            continue
        ours = value_interval(seeds, scope.f1, look, chosen.statistics)
        printed = look.of(paper)
        difference = ours.estimate - printed
        word = verdict(printed, ours)
        cells = (printed, ours.estimate, difference, ours.low, ours.high, word, ours.seeds)
        yield PrintedRow(f"{row.label}, {name}", cells, systems=(row.system,))
