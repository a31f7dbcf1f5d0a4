"""The main table (Table 2), in blocks of one agent size, and its companion of all scores.

Every builder refuses rows whose keys differ, says in its note which profile made the numbers, and
prints a row that was not run, diverged or is withheld as such, never as a blank or a zero.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import stdev

from cosearch.paper.published import average_fault, main_cells, methods
from cosearch.scores.averages import AVERAGES, Average, every_average, named_after
from cosearch.statistics.results import (
    Block,
    Result,
    Scope,
    TableRow,
    by_system,
    counts,
    datasets,
    row_status,
    seed_footnotes,
    set_means,
)
from cosearch.tables.layout import Cell, Column, Row, Table

SCORE_NAMES = {"em": "EM", "f1_bag": "F1 bag", "f1_squad": "F1 squad"}
"""Predictions column -> what a reader calls it; bag and squad are the two yes/no rules."""

_EXACT = "em"

_Numbers = tuple[tuple[Cell, ...], Mapping[str, float]]
"""Cells of a row, and the basis of those among them that are averages."""


def main_table(
    results: Sequence[Result], *, scope: Scope, status: Mapping[str, str], block: Block
) -> Table:
    """Table 2 for one agent size: the ten published methods in the paper's order, own rows below a
    rule.

    Several seeds: means over seeds and the standard deviation of the scope's average. Raises
    ValueError for rows that must not stand together.
    """
    chosen = block.chosen(results, scope)
    systems, names = by_system(chosen), datasets(chosen, scope)
    looks = _looks(names, chosen, scope)

    def numbers(row: TableRow) -> _Numbers:
        return _main_numbers(row, systems[row.system], names, looks, scope, block)

    columns = [*map(Column, names), *(Column(f"avg ({name})") for name in AVERAGES)]
    columns += [Column("± std"), Column("EM (macro)")]
    if block.published(scope):
        columns += [Column("paper avg"), Column("ours - paper", signed=True)]
    proofs = [(f"avg ({name})", look) for name, look in looks.items()]
    return Table(
        f"main_{block.name}",
        f"Answer F1 of the methods, {block.name} agent (layout of Table 2)",
        scope.f1_note(names),
        scope.profile,
        tuple(columns),
        tuple(_rows(_in_papers_order(block), systems, status, numbers)),
        (
            f"± std: of the {scope.average} average over seeds",
            *block.varying_footnotes(systems),
            *seed_footnotes(block.rows, systems, status),
            *_published_footnotes(scope, block),
        ),
        averages=(*proofs, ("EM (macro)", named_after(looks["macro"], _EXACT))),
    )


def scores_table(
    results: Sequence[Result], *, scope: Scope, status: Mapping[str, str], block: Block
) -> Table:
    """EM and the F1 under both yes/no rules, each in three averages; rows as in Table 2."""
    chosen = block.chosen(results, scope)
    systems, names = by_system(chosen), datasets(chosen, scope)
    looks = _looks(names, chosen, scope)

    def numbers(row: TableRow) -> _Numbers:
        basis: dict[str, float] = {}
        cells: list[Cell] = []
        for score in SCORE_NAMES:
            means = set_means(systems[row.system], score, names)
            cells += [looks[name].of(means) if name in looks else None for name in AVERAGES]
            basis |= {f"{score}/{name}": value for name, value in means.items()}
        return tuple(cells), basis

    return Table(
        f"scores_{block.name}",
        f"EM, and F1 under both rules for yes/no golds, {block.name} agent",
        scope.note(
            "macro: mean of the sets; macro_groups: mean of the single-hop mean and the multi-hop"
            " mean; micro: pooled over questions; means over seeds"
        ),
        scope.profile,
        tuple(Column(f"{score} {name}") for score in SCORE_NAMES.values() for name in AVERAGES),
        tuple(_rows(_in_papers_order(block), systems, status, numbers)),
        averages=tuple(
            (f"{shown} {name}", named_after(look, score))
            for score, shown in SCORE_NAMES.items()
            for name, look in looks.items()
        ),
    )


def _looks(names: Sequence[str], results: Sequence[Result], scope: Scope) -> dict[str, Average]:
    return every_average({name: scope.kinds[name] for name in names}, counts(results))


def _in_papers_order(block: Block) -> list[tuple[str, TableRow | None]]:
    """The published methods, declared or not, then the rows of our own."""
    declared = {row.label: row for row in block.rows}
    own = [label for label in declared if label not in methods()]
    return [(label, declared.get(label)) for label in (*methods(), *own)]


def _rows(
    declared: Sequence[tuple[str, TableRow | None]],
    systems: Mapping[str, Sequence[Result]],
    status: Mapping[str, str],
    numbers: Callable[[TableRow], _Numbers],
) -> list[Row]:
    rows = []
    for number, (label, row) in enumerate(declared):
        why = row_status(None if row is None else row.system, systems, status)
        cells, basis = ((), {}) if row is None or why is not None else numbers(row)
        rows.append(Row(label, cells, why, number == len(methods()), basis))
    return rows


def _main_numbers(
    row: TableRow,
    seeds: Sequence[Result],
    names: Sequence[str],
    looks: Mapping[str, Average],
    scope: Scope,
    block: Block,
) -> _Numbers:
    means = set_means(seeds, scope.f1, names)
    exact = set_means(seeds, _EXACT, names)
    decisive = scope.average_of(names)
    spread = [decisive.of(set_means([one], scope.f1, names)) for one in seeds]
    cells: list[Cell] = [*means.values()]
    cells += [looks[name].of(means) if name in looks else None for name in AVERAGES]
    cells += [stdev(spread) if len(spread) > 1 else None, looks["macro"].of(exact)]
    if backbone := block.published(scope):
        cells += _beside_published(main_cells(row.label, backbone), decisive, decisive.of(means))
    return tuple(cells), {f"{_EXACT}/{name}": value for name, value in exact.items()}


def _beside_published(paper: Mapping[str, float], average: Average, ours: float) -> list[Cell]:
    """The paper's average, recomputed from its cells, and our difference to it."""
    if not set(average.weights) <= set(paper):
        return [None, None]
    return [average.of(paper), ours - average.of(paper)]


def _published_footnotes(scope: Scope, block: Block) -> list[str]:
    """Where the paper's printed average is not the average of its cells."""
    backbone = block.published(scope)
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
