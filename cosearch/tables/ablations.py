"""Tables of changed training: the ablations (Table 3), and the walk between the two presets.

The paper's Table 3 prints averages of two kinds and takes drops across them. Here one table uses
one average, the published rows are recomputed under it, and every drop carries its interval.
"""

from dataclasses import dataclass

from cosearch.paper.published import ablation_cells
from cosearch.params.rows import TableBlock, TableRow
from cosearch.scores.averages import KINDS, Average, kind_average, over_kinds
from cosearch.statistics.bootstrap import Interval
from cosearch.statistics.comparisons import Seeds, common_seeds, mean_interval
from cosearch.statistics.results import ResultSet, set_means
from cosearch.tables.block_rows import SEEDS, block_rows, seed_footnotes
from cosearch.tables.contrasts import interval_cells, interval_columns, interval_note
from cosearch.tables.layout import Cell, Column, Table


def ablation_table(results: ResultSet, block: TableBlock) -> Table:
    """Table 3: the first row of the block is the full model, every other row is compared with it.

    Drop and interval use the seeds that both rows have.
    """
    chosen, full = _Levels(results.of_block(block)), block.rows[0]
    scope, statistics = results.scope, results.statistics
    backbone = scope.published(block.backbone)

    def cells(row: TableRow) -> list[Cell]:
        seeds = chosen.results.seeds_of(row.system)
        base = () if row is full else chosen.results.seeds_of(full.system)
        found = [*chosen.cells(seeds), *chosen.drop_cells(seeds, base)]
        return found + (chosen.published_cells(row, full, backbone) if backbone else [])

    columns = [*chosen.columns, Column("drop (%)", 1), *interval_columns("", statistics)]
    notes = [f"Drop and difference: against {full.label}, over the seeds that both have"]
    if backbone:
        columns += [Column("paper avg"), Column("paper drop (%)", 1)]
        notes.append(
            "Paper: recomputed from its single-hop and multi-hop means under the table's average,"
            " because the printed averages are of two kinds"
        )
    return Table(
        f"ablations_{block.name}",
        f"Ablations, {block.name} (layout of Table 3)",
        chosen.note,
        scope.profile,
        (*columns, SEEDS),
        block_rows(chosen.results, block, cells),
        (*notes, *seed_footnotes(chosen.results, block)),
        averages=chosen.proofs,
    )


def walk_table(results: ResultSet, block: TableBlock) -> Table:
    """The way from one preset to the other, one switch at a time; each row keeps the switches of
    the rows above. Every step is compared with the step before it and with the first.

    A step after one without numbers has no difference to that one. No published number stands in
    this table, because the paper prints no such walk.
    """
    chosen, statistics = _Levels(results.of_block(block)), results.statistics
    first = block.rows[0]
    before = dict(zip(block.rows[1:], block.rows, strict=False))

    def cells(row: TableRow) -> list[Cell]:
        seeds, found = chosen.results.seeds_of(row.system), list[Cell]()
        found += chosen.cells(seeds)
        for base in (before.get(row), first if row in before else None):
            steps = () if base is None else chosen.results.seeds_of(base.system)
            found += interval_cells(chosen.interval(seeds, steps))
        return found

    return Table(
        f"walk_{block.name}",
        f"From one preset to the other, one switch at a time, {block.name}",
        chosen.note,
        results.scope.profile,
        (
            *chosen.columns,
            *interval_columns(" to previous", statistics),
            *interval_columns(" to first", statistics),
            SEEDS,
        ),
        block_rows(chosen.results, block, cells),
        (
            "Steps are cumulative; differences are over the seeds that both steps have",
            *seed_footnotes(chosen.results, block),
        ),
        averages=chosen.proofs,
    )


@dataclass(frozen=True)
class _Levels:
    """The F1 of rows as single-hop mean, multi-hop mean and average, and differences of it."""

    results: ResultSet

    @property
    def columns(self) -> list[Column]:
        """Columns of ``cells``; the last one is the average."""
        return [*map(Column, KINDS), Column(f"avg ({self.results.scope.average})")]

    @property
    def proofs(self) -> tuple[tuple[str, Average], ...]:
        """How the average follows from the two means; empty where one kind of sets is missing."""
        proof = over_kinds(self.results.average, self.results.scope.kinds)
        return () if proof is None else ((self.columns[-1].name, proof),)

    @property
    def note(self) -> str:
        """The note of a table with these columns and with intervals."""
        names = self.results.datasets
        return f"{self.results.scope.f1_note(names)} {interval_note(self.results)}."

    def cells(self, seeds: Seeds) -> list[Cell]:
        """Single-hop mean, multi-hop mean, average; None for a kind without sets."""
        kinds = self.results.kinds
        means = set_means(seeds, self.results.scope.f1, kinds)
        there = {kind: kind_average(kind, kinds) for kind in KINDS if kind in kinds.values()}
        by_kind = [there[kind].of(means) if kind in there else None for kind in KINDS]
        return [*by_kind, self.results.average.of(means)]

    def interval(self, seeds: Seeds, base: Seeds) -> Interval | None:
        """Interval of the difference to ``base``; None where they have no seed in common."""
        ours, theirs = common_seeds(seeds, base)
        if not ours:
            return None
        look, statistics = self.results.average, self.results.statistics
        return mean_interval(ours, theirs, self.results.scope.f1, look, statistics)

    def drop_cells(self, seeds: Seeds, base: Seeds) -> list[Cell]:
        """Percent of ``base`` that is lost, then the cells of the interval."""
        interval, lost = self.interval(seeds, base), None
        if interval is not None:
            _, theirs = common_seeds(seeds, base)
            look = self.results.average
            level = look.of(set_means(theirs, self.results.scope.f1, look.weights))
            lost = -100 * interval.estimate / level if level else None
        return [lost, *interval_cells(interval)]

    def published_cells(self, row: TableRow, full: TableRow, backbone: str) -> list[Cell]:
        """Table 3's average and drop under the average of this table."""
        look, kinds = self.results.average, self.results.scope.kinds
        proof = over_kinds(look, kinds)
        cells, base = (ablation_cells(one.label, backbone) for one in (row, full))
        if proof is None or not set(KINDS) <= set(cells) or set(look.weights) != set(kinds):
            return [None, None]
        value = proof.of(cells)
        return [value, None if row is full else 100 * (1 - value / proof.of(base))]
