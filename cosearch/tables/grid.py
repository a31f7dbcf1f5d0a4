"""The number of documents shown, K (Table 4): evaluation only, every K on the same questions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

import polars as pl

from cosearch.paper.published import grid_cells
from cosearch.params.rows import GridTable
from cosearch.scores.averages import Average
from cosearch.statistics.comparisons import Seeds, common_seeds, mean_interval
from cosearch.statistics.results import NOT_RUN, ResultSet, check_comparable, set_means
from cosearch.tables.block_rows import SEEDS
from cosearch.tables.contrasts import interval_cells, interval_columns, interval_note
from cosearch.tables.layout import Cell, Column, PrintedRow, Table


@dataclass(frozen=True)
class DocumentGrid:
    """The results of Table 4 by method and K.

    ``cells``: (published method label, K) -> the results of that cell, one per seed. ``status``:
    method label -> the text in place of its row. ``default_k``: the K that changes are relative
    to. Raises ValueError for results that were made under another K than that of their cell.
    """

    cells: Mapping[tuple[str, int], Seeds]
    status: Mapping[str, str]
    default_k: int

    def __post_init__(self) -> None:
        for (label, k), results in self.cells.items():
            wrong = [one.key.get("top_k") for one in results if one.key.get("top_k") != k]
            if wrong:
                raise ValueError(f"{label} stands at K={k}, its results were made under {wrong[0]}")

    @cached_property
    def ks(self) -> list[int]:
        """Every K, ascending."""
        return sorted({k for _, k in self.cells})

    def row(self, label: str) -> dict[int, Seeds]:
        """The results of a method at every K; empty where there are none."""
        return {k: self.cells.get((label, k), ()) for k in self.ks}

    def results_of(self, results: ResultSet) -> ResultSet:
        """The results of all cells. Raises ValueError where they must not stand together."""
        every = [one for seeds in self.cells.values() for one in seeds]
        check_comparable(every, results.scope, varying={"top_k"})
        return replace(results, evaluated=every)


def read_grid(
    results: ResultSet, spec: GridTable, k_of: Mapping[str, int], default_k: int
) -> DocumentGrid:
    """The grid of a scope. ``k_of``: system -> the K that it shows."""
    cells: dict[tuple[str, int], Seeds] = {}
    status = {}
    for row in spec.rows:
        for system in row.systems:
            if system in results.status:
                status[row.label] = results.status[system]
            elif system in results.by_system:
                cells[row.label, k_of[system]] = results.by_system[system]
    return DocumentGrid(cells, status, default_k)


def grid_table(results: ResultSet, grid: DocumentGrid, backbone: str | None) -> Table:
    """Average F1 per method and K, and the relative change to the default K in percent."""
    chosen, scope = grid.results_of(results), results.scope
    published = scope.published(backbone)
    columns = [Column(f"K={k}") for k in grid.ks]
    columns += [
        Column(f"K={k} to K={grid.default_k} (%)", 1, signed=True)
        for k in grid.ks
        if k != grid.default_k
    ]
    columns += [Column(f"shown at K={k}", 2) for k in grid.ks]
    if published is not None:
        columns += [Column(f"paper K={k}") for k in grid.ks]
    labels = dict.fromkeys(label for label, _ in grid.cells)
    return Table(
        "grid",
        "Answer F1 by the number of documents shown (layout of Table 4)",
        scope.f1_note(chosen.datasets),
        scope.profile,
        (*columns, SEEDS),
        tuple(_row(chosen, grid, label, published) for label in labels),
        (
            "The intervals of the changes stand in the table of changes with K.",
            "Shown: documents that the agent read, mean over searches. An evaluation makes room for"
            " K documents (evaluate.document_tokens); training leaves out those beyond"
            " agent.max_observation_tokens.",
        ),
        head="Method",
        averages=tuple((f"K={k}", _of_k(chosen.average, k)) for k in grid.ks),
    )


def grid_change_table(results: ResultSet, grid: DocumentGrid) -> Table:
    """The difference of every cell of the grid to the same method at the default K, with interval
    and verdict; over the seeds that both have."""
    chosen, scope = grid.results_of(results), results.scope
    rows = [_change_row(chosen, grid, label, k) for label, k in grid.cells if k != grid.default_k]
    return Table(
        "grid_changes",
        f"Change with K, against K={grid.default_k}",
        f"{scope.f1_note(chosen.datasets)} {interval_note(chosen)}.",
        scope.profile,
        interval_columns("", results.statistics),
        tuple(rows),
        head="Method, K",
    )


def _change_row(chosen: ResultSet, grid: DocumentGrid, label: str, k: int) -> PrintedRow:
    by_k = grid.row(label)
    ours, base = common_seeds(by_k[k], by_k.get(grid.default_k, ()))
    why = grid.status.get(label, None if ours else NOT_RUN)
    if why is not None:
        return PrintedRow(f"{label}, K={k}", (), why)
    f1, statistics = chosen.scope.f1, chosen.statistics
    interval = mean_interval(ours, base, f1, chosen.average, statistics)
    return PrintedRow(f"{label}, K={k}", interval_cells(interval), systems=(ours[0].system,))


def _row(chosen: ResultSet, grid: DocumentGrid, label: str, published: str | None) -> PrintedRow:
    by_k, look = grid.row(label), chosen.average
    if label in grid.status or not any(by_k.values()):
        return PrintedRow(label, (), grid.status.get(label, NOT_RUN))
    f1 = chosen.scope.f1
    means = {k: set_means(seeds, f1, look.weights) for k, seeds in by_k.items() if seeds}
    values = {k: look.of(cells) for k, cells in means.items()}
    base = values.get(grid.default_k)
    changes = [
        100 * (values[k] / base - 1) if base and k in values else None
        for k in by_k
        if k != grid.default_k
    ]
    shown = map(_documents_shown, by_k.values())
    cells: list[Cell] = [*(values.get(k) for k in by_k), *changes, *shown]
    own = [seeds[0].system if seeds else "" for seeds in by_k.values()]
    changed = [system for k, system in zip(by_k, own, strict=True) if k != grid.default_k]
    systems = [*own, *changed, *own]
    if published is not None:
        paper = grid_cells(label, published)
        cells += [paper.get(k) for k in by_k]
        systems += [""] * len(by_k)
    cells.append(min(len(seeds) for seeds in by_k.values() if seeds))
    systems.append(own[0])
    basis = {f"K={k}/{name}": v for k, cells in means.items() for name, v in cells.items()}
    return PrintedRow(label, tuple(cells), basis=basis, systems=tuple(systems))


def _documents_shown(seeds: Seeds) -> float | None:
    """Documents that an agent read of a search, pooled over searches, mean over seeds; None where
    no agent searched."""
    if not seeds or any(one.calls.is_empty() for one in seeds):
        return None
    shown = pl.col("ranking").list.len().cast(pl.Float64) - pl.col("dropped_documents")
    return fmean(one.calls.select(shown.mean()).item() for one in seeds)


def _of_k(look: Average, k: int) -> Average:
    return Average(look.name, {f"K={k}/{name}": weight for name, weight in look.weights.items()})
