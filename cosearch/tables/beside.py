"""Every row that was evaluated, beside the row that it is to be held against."""

from collections.abc import Mapping, Sequence

from cosearch.params.rows import Comparison
from cosearch.scores.averages import Average
from cosearch.statistics.comparisons import Outcome, Seeds, compare
from cosearch.statistics.results import ResultSet, set_means
from cosearch.tables.contrasts import interval_note
from cosearch.tables.layout import Cell, Column, PrintedRow, Table, signed_text

Against = Mapping[str, Sequence[str]]
"""System -> the systems that it is compared with, the first one being the nearest."""


def beside_table(results: ResultSet, against: Against) -> Table:
    """The systems of ``against`` with their scores, and their F1 less that of each system that
    they are compared with."""
    scope, statistics = results.scope, results.statistics
    level = f"{statistics.level:.0%} interval"
    return Table(
        "beside",
        "Rows on this machine",
        scope.note(
            f"F1 (rule {scope.rule}) and EM: average {scope.average}", interval_note(results)
        ),
        scope.profile,
        (
            Column("seeds"),
            Column("F1"),
            Column("EM"),
            Column("searches", 2),
            Column("F1 less that of", text=True),
            Column("difference", signed=True),
            Column(level, text=True),
        ),
        tuple(row for name in against for row in _rows(results, name, against[name])),
        tuple(results.differing("top_k", {name: name for name in against})),
        head="Row",
    )


def _rows(results: ResultSet, name: str, others: Sequence[str]) -> list[PrintedRow]:
    if (status := results.missing(name)) is not None:
        return [PrintedRow(name, (), status)]
    scores = _scores(results, name)
    compared = [(other, _outcome(results, name, other)) for other in others]
    first, *rest = [_compared(*pair) for pair in compared] or [(None, None, None)]
    blank: tuple[Cell, ...] = (None,) * len(scores)
    return [PrintedRow(name, (*scores, *first)), *(PrintedRow("", (*blank, *row)) for row in rest)]


def _scores(results: ResultSet, name: str) -> tuple[Cell, ...]:
    """Number of seeds, then F1, EM and searches per question, each averaged over the data sets."""
    seeds = results.seeds_of(name)
    average = results.of([name]).average
    columns = (results.scope.f1, "em", "searches")
    return len(seeds), *(_mean(seeds, column, average) for column in columns)


def _mean(seeds: Seeds, column: str, average: Average) -> float:
    return average.of(set_means(seeds, column, average.weights))


def _compared(other: str, outcome: Outcome) -> tuple[Cell, ...]:
    """The other system, the difference and its interval, or why there is none."""
    if outcome.interval is None:
        return other, None, outcome.status
    interval = outcome.interval
    return other, interval.estimate, f"{signed_text(interval.low)} to {signed_text(interval.high)}"


def _outcome(results: ResultSet, name: str, other: str) -> Outcome:
    """The comparison in F1; a status where the two must not stand together."""
    comparison = Comparison(left=name, right=other, metric="f1")
    try:
        return compare(results.pair(name, other), comparison)
    except ValueError as error:
        return Outcome(comparison, status=str(error))
