"""The main table (Table 2), in blocks of one agent size, and its companion of all scores.

Every builder refuses rows whose keys differ and says in its note which profile made the numbers. A
row that was not run, diverged or is withheld is printed with that reason in place of its numbers.
"""

from collections.abc import Callable, Mapping
from statistics import stdev

from cosearch.paper.published import average_fault, main_cells, methods
from cosearch.params.rows import TableBlock, TableRow
from cosearch.scores.averages import AVERAGES, Average, every_average, named_after
from cosearch.statistics.results import ResultSet, set_means
from cosearch.statistics.scope import Scope
from cosearch.tables.block_rows import SEEDS, seed_count, seed_footnotes
from cosearch.tables.layout import Cell, Column, PrintedRow, Table

SCORE_NAMES = {"em": "EM", "f1_bag": "F1 bag", "f1_squad": "F1 squad"}
"""Predictions column -> its name for a reader; bag and squad are the two yes/no rules."""

_EXACT = "em"

_Numbers = tuple[tuple[Cell, ...], Mapping[str, float]]
"""Cells of a row, and the basis of those among them that are averages."""


def main_table(results: ResultSet, block: TableBlock) -> Table:
    """Table 2 for one agent size: the ten published methods in the paper's order, own rows below a
    rule.

    Several seeds: means over seeds and the standard deviation of the scope's average. Raises
    ValueError for rows that must not stand together.
    """
    chosen, scope = results.of_block(block), results.scope
    looks = _looks(chosen)
    columns = [*map(Column, chosen.datasets), *(Column(f"avg ({name})") for name in AVERAGES)]
    columns += [Column("± std"), Column("EM (macro)")]
    if scope.published(block.backbone):
        columns += [Column("paper avg"), Column("ours - paper", signed=True)]
    proofs = [(f"avg ({name})", look) for name, look in looks.items()]
    return Table(
        f"main_{block.name}",
        f"Answer F1 of the methods, {block.name} agent (layout of Table 2)",
        scope.f1_note(chosen.datasets),
        scope.profile,
        (*columns, SEEDS),
        _rows(chosen, block, lambda row: _main_numbers(chosen, block, row, looks)),
        (
            f"± std: of the {scope.average} average over seeds",
            *_varying_footnotes(chosen, block),
            *seed_footnotes(chosen, block),
            *_published_footnotes(scope, block),
        ),
        averages=(*proofs, ("EM (macro)", named_after(looks["macro"], _EXACT))),
    )


def scores_table(results: ResultSet, block: TableBlock) -> Table:
    """EM and the F1 under both yes/no rules, each in three averages; rows as in Table 2."""
    chosen = results.of_block(block)
    looks = _looks(chosen)

    def numbers(row: TableRow) -> _Numbers:
        basis: dict[str, float] = {}
        cells: list[Cell] = []
        for score in SCORE_NAMES:
            means = set_means(chosen.seeds_of(row.system), score, chosen.datasets)
            cells += [looks[name].of(means) if name in looks else None for name in AVERAGES]
            basis |= {f"{score}/{name}": value for name, value in means.items()}
        return tuple(cells), basis

    return Table(
        f"scores_{block.name}",
        f"EM, and F1 under both rules for yes/no golds, {block.name} agent",
        chosen.scope.note(
            "macro: mean of the sets; macro_groups: mean of the single-hop mean and the multi-hop"
            " mean; micro: pooled over questions; means over seeds"
        ),
        chosen.scope.profile,
        (
            *(Column(f"{score} {name}") for score in SCORE_NAMES.values() for name in AVERAGES),
            SEEDS,
        ),
        _rows(chosen, block, numbers),
        averages=tuple(
            (f"{shown} {name}", named_after(look, score))
            for score, shown in SCORE_NAMES.items()
            for name, look in looks.items()
        ),
    )


def _looks(chosen: ResultSet) -> dict[str, Average]:
    return every_average(chosen.kinds, chosen.question_counts)


def _rows(
    chosen: ResultSet, block: TableBlock, numbers: Callable[[TableRow], _Numbers]
) -> tuple[PrintedRow, ...]:
    """The published methods, declared or not, then the rows of our own below a rule."""
    declared = {row.label: row for row in block.rows}
    own = [label for label in declared if label not in methods()]
    rows = []
    for number, label in enumerate((*methods(), *own)):
        row = declared.get(label)
        why = chosen.missing(None if row is None else row.system)
        cells, basis = ((), {}) if row is None or why is not None else numbers(row)
        cells += () if row is None or why is not None else (seed_count(chosen, row),)
        systems = () if row is None else (row.system,)
        rows.append(PrintedRow(label, cells, why, number == len(methods()), basis, systems))
    return tuple(rows)


def _main_numbers(
    chosen: ResultSet, block: TableBlock, row: TableRow, looks: Mapping[str, Average]
) -> _Numbers:
    seeds, scope, names = chosen.seeds_of(row.system), chosen.scope, chosen.datasets
    decisive = chosen.average
    means = set_means(seeds, scope.f1, names)
    exact = set_means(seeds, _EXACT, names)
    spread = [decisive.of(set_means([one], scope.f1, names)) for one in seeds]
    cells: list[Cell] = [*means.values()]
    cells += [looks[name].of(means) if name in looks else None for name in AVERAGES]
    cells += [stdev(spread) if len(spread) > 1 else None, looks["macro"].of(exact)]
    if backbone := scope.published(block.backbone):
        cells += _beside_published(main_cells(row.label, backbone), decisive, decisive.of(means))
    return tuple(cells), {f"{_EXACT}/{name}": value for name, value in exact.items()}


def _beside_published(paper: Mapping[str, float], average: Average, ours: float) -> list[Cell]:
    """The paper's average, recomputed from its cells, and our difference to it."""
    if not set(average.weights) <= set(paper):
        return [None, None]
    return [average.of(paper), ours - average.of(paper)]


def _varying_footnotes(chosen: ResultSet, block: TableBlock) -> list[str]:
    """For every key in ``block.varying`` in which rows do differ: its value in each row."""
    labels = {row.system: row.label for row in block.rows}
    return [note for key in block.varying for note in chosen.differing(key, labels)]


def _published_footnotes(scope: Scope, block: TableBlock) -> list[str]:
    """The methods whose printed average in the paper is not the average of their cells."""
    backbone = scope.published(block.backbone)
    if backbone is None:
        return []
    average = scope.average_of([*scope.kinds])
    notes = []
    for method in methods():
        cells = main_cells(method, backbone)
        fault = average_fault(cells, average) if set(scope.kinds) <= set(cells) else None
        if fault is not None:
            notes.append(
                f"{method}: the paper prints {cells['avg']:.3f}, its cells give {fault:.3f}"
            )
    return [*notes, f"Published numbers: {backbone}, averages recomputed from the cells"]
