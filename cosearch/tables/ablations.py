"""Tables of changed training: the ablations (Table 3), and the walk between the two presets.

The paper's Table 3 prints averages of two kinds and takes drops across them. Here one table uses
one average, the published rows are recomputed under it, and every drop carries its interval.
"""

from collections.abc import Mapping, Sequence

from cosearch.paper.published import ablation_cells
from cosearch.scores.averages import KINDS, Average, kind_average, over_kinds
from cosearch.statistics.bootstrap import Interval
from cosearch.statistics.comparisons import Statistics, common_seeds, mean_interval
from cosearch.statistics.results import (
    Block,
    Result,
    Scope,
    TableRow,
    by_system,
    datasets,
    row_status,
    seed_footnotes,
    set_means,
)
from cosearch.tables.contrasts import interval_cells, interval_columns, interval_note
from cosearch.tables.layout import Cell, Column, Row, Table

Seeds = Sequence[Result]


def ablation_table(
    results: Sequence[Result],
    *,
    scope: Scope,
    statistics: Statistics,
    status: Mapping[str, str],
    block: Block,
) -> Table:
    """Table 3: the first row of the block is the full model, every other one is held against it.

    A row in ``status`` ("diverged at round 7: ...") shows that text. Drop and interval use the
    seeds that both rows have. Raises ValueError for an empty block.
    """
    if not block.rows:
        raise ValueError(f"block {block.name}: no full model to hold rows against")
    chosen = block.chosen(results, scope)
    systems, names = by_system(chosen), datasets(chosen, scope)
    look, full = scope.average_of(names), block.rows[0]
    known = {name: seeds for name, seeds in systems.items() if name not in status}
    rows = []
    for row in block.rows:
        why = row_status(row.system, systems, status)
        if why is not None:
            rows.append(Row(row.label, (), why))
            continue
        cells = _level_cells(known[row.system], look, scope)
        base = [] if row is full else known.get(full.system, [])
        cells += _against(known[row.system], base, look, scope, statistics, drop=True)
        if backbone := block.published(scope):
            cells += _published(row, full, look, scope, backbone)
        rows.append(Row(row.label, tuple(cells)))
    columns = [*_levels(scope), Column("drop (%)", 1), *interval_columns("", statistics)]
    if block.published(scope):
        columns += [Column("paper avg"), Column("paper drop (%)", 1)]
    title = f"Ablations, {block.name} (layout of Table 3)"
    notes = [f"Drop and difference: against {full.label}, over the seeds that both have"]
    if block.published(scope):
        notes.append(
            "Paper: recomputed from its single-hop and multi-hop means under the table's average,"
            " because the printed averages are of two kinds"
        )
    notes += seed_footnotes(block.rows, systems, status)
    return _table(f"ablations_{block.name}", title, columns, rows, notes, look, scope, statistics)


def walk_table(
    results: Sequence[Result],
    *,
    scope: Scope,
    statistics: Statistics,
    status: Mapping[str, str],
    block: Block,
) -> Table:
    """The way from one preset to the other, one switch at a time; each row keeps the switches of
    the rows above. Every step is held against the step before it and against the first.

    After a step without numbers there is no difference to it. No published number: the paper
    prints no such walk.
    """
    chosen = block.chosen(results, scope)
    systems, names = by_system(chosen), datasets(chosen, scope)
    look = scope.average_of(names)
    known = [[] if row.system in status else systems.get(row.system, []) for row in block.rows]
    rows = []
    for number, (row, seeds) in enumerate(zip(block.rows, known, strict=True)):
        why = row_status(row.system, systems, status)
        if why is not None:
            rows.append(Row(row.label, (), why))
            continue
        before, first = (known[number - 1], known[0]) if number else ([], [])
        cells = _level_cells(seeds, look, scope)
        cells += _against(seeds, before, look, scope, statistics)
        cells += _against(seeds, first, look, scope, statistics)
        rows.append(Row(row.label, tuple(cells)))
    columns = [
        *_levels(scope),
        *interval_columns(" to previous", statistics),
        *interval_columns(" to first", statistics),
    ]
    notes = [
        "Steps are cumulative; differences are over the seeds that both steps have",
        *seed_footnotes(block.rows, systems, status),
    ]
    title = f"From one preset to the other, one switch at a time, {block.name}"
    return _table(f"walk_{block.name}", title, columns, rows, notes, look, scope, statistics)


def _table(
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    footnotes: Sequence[str],
    look: Average,
    scope: Scope,
    statistics: Statistics,
) -> Table:
    proof = over_kinds(look, scope.kinds)
    return Table(
        name,
        title,
        f"{scope.f1_note(list(look.weights))} {interval_note(statistics)}.",
        scope.profile,
        tuple(columns),
        tuple(rows),
        tuple(footnotes),
        averages=() if proof is None else ((_levels(scope)[-1].name, proof),),
    )


def _levels(scope: Scope) -> list[Column]:
    return [*map(Column, KINDS), Column(f"avg ({scope.average})")]


def _level_cells(seeds: Seeds, look: Average, scope: Scope) -> list[Cell]:
    """Single-hop mean, multi-hop mean, average."""
    kinds = {name: scope.kinds[name] for name in look.weights}
    means = set_means(seeds, scope.f1, kinds)
    there = {kind: kind_average(kind, kinds) for kind in KINDS if kind in kinds.values()}
    return [*(there[kind].of(means) if kind in there else None for kind in KINDS), look.of(means)]


def _against(
    seeds: Seeds,
    base: Seeds,
    look: Average,
    scope: Scope,
    statistics: Statistics,
    *,
    drop: bool = False,
) -> list[Cell]:
    """The difference to ``base`` with interval and verdict; ``drop``: percent lost, before it.

    Empty cells where base is empty or shares no seed.
    """
    ours, theirs = common_seeds(seeds, base)
    interval: Interval | None = None
    lost: float | None = None
    if ours:
        interval = mean_interval(ours, theirs, scope.f1, average=look, statistics=statistics)
        level = look.of(set_means(theirs, scope.f1, look.weights))
        lost = -100 * interval.estimate / level if level else None
    return [*([lost] if drop else []), *interval_cells(interval)]


def _published(
    row: TableRow, full: TableRow, look: Average, scope: Scope, backbone: str
) -> list[Cell]:
    """Table 3's average and drop under the average of this table."""
    proof = over_kinds(look, scope.kinds)
    cells, base = (ablation_cells(one.label, backbone) for one in (row, full))
    if proof is None or not set(KINDS) <= set(cells) or set(look.weights) != set(scope.kinds):
        return [None, None]
    value = proof.of(cells)
    return [value, None if row is full else 100 * (1 - value / proof.of(base))]
