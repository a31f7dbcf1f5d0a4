"""The number of documents shown, K (Table 4): evaluation only, every K on the same questions."""

from collections.abc import Mapping, Sequence

from cosearch.paper.published import grid_cells
from cosearch.scores.averages import Average
from cosearch.statistics.comparisons import Statistics, common_seeds, mean_interval
from cosearch.statistics.results import Result, Scope, check_comparable, datasets, set_means
from cosearch.tables.contrasts import interval_cells, interval_columns, interval_note
from cosearch.tables.layout import Cell, Column, Row, Table

Grid = Mapping[tuple[str, int], Sequence[Result]]
"""(published method label, K) -> the results of that cell, one per seed."""


def grid_table(
    grid: Grid,
    *,
    scope: Scope,
    status: Mapping[str, str],
    default_k: int,
    backbone: str | None,
) -> Table:
    """Average F1 per method and K, and the relative change to ``default_k`` in percent.

    ``status``: method label -> what stands in place of its row. Raises ValueError for results that
    must not stand together, or that were made under another K than their place says.
    """
    names, ks = _checked(grid, scope)
    look = scope.average_of(names)
    paper = backbone if scope.comparable else None
    rows = [
        _row(
            label, {k: grid.get((label, k), ()) for k in ks}, look, scope, status, default_k, paper
        )
        for label in dict.fromkeys(label for label, _ in grid)
    ]
    others = [k for k in ks if k != default_k]
    columns = [Column(f"K={k}") for k in ks]
    columns += [Column(f"K={k} to K={default_k} (%)", 1, signed=True) for k in others]
    if paper is not None:
        columns += [Column(f"paper K={k}") for k in ks]
    return Table(
        "grid",
        "Answer F1 by the number of documents shown (layout of Table 4)",
        scope.f1_note(names),
        scope.profile,
        tuple(columns),
        tuple(rows),
        ("The intervals of the changes stand in the table of changes with K.",),
        head="Method",
        averages=tuple((f"K={k}", _of_k(look, k)) for k in ks),
    )


def grid_change_table(
    grid: Grid,
    *,
    scope: Scope,
    statistics: Statistics,
    status: Mapping[str, str],
    default_k: int,
) -> Table:
    """The difference of every cell of the grid to the same method at ``default_k``, with interval
    and verdict; over the seeds that both have."""
    names, _ = _checked(grid, scope)
    look = scope.average_of(names)
    rows = []
    for label, k in grid:
        if k == default_k:
            continue
        ours, base = common_seeds(grid[label, k], grid.get((label, default_k), ()))
        why = status.get(label, None if ours else "not run")
        interval = (
            None
            if why is not None
            else mean_interval(ours, base, scope.f1, average=look, statistics=statistics)
        )
        cells = () if interval is None else interval_cells(interval)
        rows.append(Row(f"{label}, K={k}", cells, why))
    return Table(
        "grid_changes",
        f"Change with K, against K={default_k}",
        f"{scope.f1_note(names)} {interval_note(statistics)}.",
        scope.profile,
        interval_columns("", statistics),
        tuple(rows),
        head="Method, K",
    )


def _checked(grid: Grid, scope: Scope) -> tuple[list[str], list[int]]:
    """Data sets of the grid and its K in ascending order."""
    for (label, k), results in grid.items():
        wrong = [one.key.get("top_k") for one in results if one.key.get("top_k") != k]
        if wrong:
            raise ValueError(f"{label} stands at K={k}, its results were made under {wrong[0]}")
    every = [one for results in grid.values() for one in results]
    check_comparable(every, scope, varying={"top_k"})
    return datasets(every, scope), sorted({k for _, k in grid})


def _row(
    label: str,
    by_k: Mapping[int, Sequence[Result]],
    look: Average,
    scope: Scope,
    status: Mapping[str, str],
    default_k: int,
    paper: str | None,
) -> Row:
    if label in status or not any(by_k.values()):
        return Row(label, (), status.get(label, "not run"))
    means = {k: set_means(seeds, scope.f1, look.weights) for k, seeds in by_k.items() if seeds}
    values = {k: look.of(cells) for k, cells in means.items()}
    base = values.get(default_k)
    changes = [
        100 * (values[k] / base - 1) if base and k in values else None
        for k in by_k
        if k != default_k
    ]
    cells: list[Cell] = [*(values.get(k) for k in by_k), *changes]
    if paper is not None:
        published = grid_cells(label, paper)
        cells += [published.get(k) for k in by_k]
    basis = {f"K={k}/{name}": v for k, cells in means.items() for name, v in cells.items()}
    return Row(label, tuple(cells), basis=basis)


def _of_k(look: Average, k: int) -> Average:
    return Average(look.name, {f"K={k}/{name}": weight for name, weight in look.weights.items()})
