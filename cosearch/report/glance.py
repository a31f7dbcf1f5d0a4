"""The first screen of the report: differences, data sets and numbers of documents as pictures."""

from collections.abc import Iterator
from dataclasses import replace

from cosearch.params.rows import Comparison, TableBlock
from cosearch.report.intervals import IntervalPicture, IntervalRow
from cosearch.scores.averages import Average, single_sets
from cosearch.statistics.bootstrap import Interval
from cosearch.statistics.comparisons import Seeds, compare, value_interval
from cosearch.statistics.results import NOT_RUN, ResultSet, set_means
from cosearch.tables.contrasts import interval_note
from cosearch.tables.evidence import Evidence
from cosearch.tables.grid import read_grid
from cosearch.tables.publish import main_blocks


def glance(found: Evidence) -> list[IntervalPicture]:
    """The pictures that the scope has rows for."""
    pictures = [_differences(found), _by_documents(found), *_by_data_set(found)]
    return [picture for picture in pictures if picture.rows]


def _differences(found: Evidence) -> IntervalPicture:
    """The declared comparisons and the ablations as one picture, with verdicts."""
    scope, ablations = found.scope, found.tables.ablations
    full, *others = ablations.rows
    rows = []
    for one in found.comparisons:
        label = f"{scope.label(one.left)} against {scope.label(one.right)}"
        label += "" if one.metric == "f1" else f", {one.metric.replace('hit_', 'Hit@')}"
        rows.append(_difference(found, one, label, "Declared comparisons"))
    for row in others:
        one = Comparison(left=row.system, right=full.system, metric="f1")
        rows.append(_difference(found, one, row.label, f"Ablations, against {full.label}"))
    return IntervalPicture(
        "differences",
        "What is better than what",
        f"Differences in F1 ({scope.average} average) unless the line names another measure."
        f" {interval_note(found.results)}."
        " A full dot: the interval lies on one side of 0. An empty dot: it holds 0, or the"
        " seeds are too few for a verdict.",
        ("Difference",),
        [row for row in rows if row.status != NOT_RUN],
        head="Left against right",
        signed=True,
    )


def _difference(found: Evidence, one: Comparison, label: str, group: str) -> IntervalRow:
    outcome = compare(found.results.pair(one.left, one.right), one)
    intervals = () if outcome.interval is None else (outcome.interval,)
    return IntervalRow(label, intervals, (one.left, one.right), group, outcome.status)


def _by_documents(found: Evidence) -> IntervalPicture:
    """F1 of the methods of Table 4 at every K."""
    grid = read_grid(found.results, found.tables.grid, found.k_of, found.top_k)
    chosen = grid.results_of(found.results)
    look = chosen.average
    rows = [
        IntervalRow(
            f"K = {k}",
            (_value(chosen, seeds, look),),
            (seeds[0].system,),
            label,
        )
        for (label, k), seeds in grid.cells.items()
        if len(grid.ks) > 1 and label not in grid.status
    ]
    note = f"F1 ({chosen.scope.average} average) with its interval. K: passages shown to the agent."
    return IntervalPicture("by_documents", "By number of documents", note, ("F1",), rows)


def _by_data_set(found: Evidence) -> Iterator[IntervalPicture]:
    """F1 of every system of Table 2 on every data set, one picture per size of the agent."""
    for block in main_blocks(found):
        chosen = found.results.of_block(block)
        looks = single_sets(chosen.datasets) | {f"avg ({found.scope.average})": chosen.average}
        yield IntervalPicture(
            f"by_data_set_{block.name}",
            f"By data set, {block.name} agent",
            "F1 with its interval, all data sets on one scale.",
            tuple(looks),
            list(_data_set_rows(found, block, list(looks.values()))),
            parts=3,
        )


def _data_set_rows(
    found: Evidence, block: TableBlock, looks: list[Average]
) -> Iterator[IntervalRow]:
    results = found.results
    for row in block.rows:
        seeds, why = results.seeds_of(row.system), results.missing(row.system)
        if why != NOT_RUN:
            intervals = () if why else tuple(_value(results, seeds, look) for look in looks)
            yield IntervalRow(row.label, intervals, (row.system,), status=why)


def _value(results: ResultSet, seeds: Seeds, look: Average) -> Interval:
    """The interval of an average, around the very number that the tables print."""
    f1 = results.scope.f1
    interval = value_interval(seeds, f1, look, results.statistics)
    return replace(interval, estimate=look.of(set_means(seeds, f1, look.weights)))
