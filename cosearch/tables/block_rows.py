"""Printed rows of a declared block of rows, for every table that prints such a block."""

from collections.abc import Callable, Iterable

from cosearch.params.rows import TableBlock, TableRow
from cosearch.statistics.results import ResultSet
from cosearch.tables.layout import Cell, Column, PrintedRow

SEEDS = Column("seeds")
"""The last column of every table that prints a block."""


def seed_count(chosen: ResultSet, row: TableRow) -> int:
    """The number of seeds behind the numbers of a row."""
    return len(chosen.seeds_of(row.system))


def block_rows(
    chosen: ResultSet, block: TableBlock, cells: Callable[[TableRow], Iterable[Cell]]
) -> tuple[PrintedRow, ...]:
    """One printed row per row of the block: its ``cells`` and, for the column ``SEEDS``, how many
    seeds they are of; or why it has no numbers."""
    rows = []
    for row in block.rows:
        why = chosen.missing(row.system)
        found = (*cells(row), seed_count(chosen, row)) if why is None else ()
        rows.append(PrintedRow(row.label, found, why, systems=(row.system,)))
    return tuple(rows)


def seed_footnotes(chosen: ResultSet, block: TableBlock) -> list[str]:
    """The seeds behind every row that prints numbers; no footnote where each has one seed."""
    seeds = {
        row.label: [one.seed for one in chosen.seeds_of(row.system)]
        for row in block.rows
        if chosen.missing(row.system) is None
    }
    if all(len(found) == 1 for found in seeds.values()):
        return []
    texts = [f"{label} {', '.join(map(str, found))}" for label, found in seeds.items()]
    return ["Means over seeds: " + "; ".join(texts)]
