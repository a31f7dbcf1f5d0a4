"""Tables of results: the paper's (Tables 1 and 2) and the declared comparisons.

Every builder refuses rows whose keys differ, says in its note which profile made the numbers, and
prints a row that was not run or is withheld as such, never as a blank or a zero.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev

from cosearch.evaluation.averages import KINDS, Average
from cosearch.evaluation.behaviour import cost_table, retrieval_table, searches_table
from cosearch.evaluation.bootstrap import Interval
from cosearch.evaluation.comparisons import Comparison, Outcome, Statistics, compare
from cosearch.evaluation.layout import Cell, Column, Row, Table
from cosearch.evaluation.oracle_gap import Gap, gaps
from cosearch.evaluation.published import average_fault, main_cells, methods
from cosearch.evaluation.results import (
    Result,
    Scope,
    by_system,
    check_comparable,
    datasets,
    row_status,
)

__all__ = [
    "comparison_table",
    "cost_table",
    "main_table",
    "oracle_table",
    "retrieval_table",
    "searches_table",
]


def main_table(results: Sequence[Result], *, scope: Scope, withheld: Mapping[str, str]) -> Table:
    """Table 2: the ten published methods in the paper's order, own rows below a rule.

    ``withheld``: system -> reason; its numbers are not shown. Several seeds: means over seeds and
    the standard deviation of the average. Raises ValueError for keys that do not match.
    """
    check_comparable(results, scope)
    names = datasets(results, scope)
    average = scope.average_of(names)
    systems = by_system(results)
    by_label = {label: system for system, label in scope.labels.items()}
    if len(by_label) != len(scope.labels):
        raise ValueError("two systems carry the same label")
    own = [label for label in by_label if label not in methods()]
    rows = [
        _main_row(
            label, by_label.get(label), systems, average, scope, withheld, ruled=label in own[:1]
        )
        for label in (*methods(), *own)
    ]
    column = f"avg ({average.name})"
    columns = [*map(Column, names), Column(column), Column("± std")]
    if scope.comparable:
        columns += [Column("paper avg"), Column("ours - paper", signed=True)]
    footnotes = (*_seed_footnotes(systems, scope, withheld), *_published_footnotes(scope))
    return Table(
        "main",
        "Answer F1 of the methods (layout of Table 2)",
        scope.f1_note(names),
        scope.profile,
        tuple(columns),
        tuple(rows),
        footnotes,
        average=(column, average),
    )


def _main_row(
    label: str,
    system: str | None,
    systems: Mapping[str, Sequence[Result]],
    average: Average,
    scope: Scope,
    withheld: Mapping[str, str],
    *,
    ruled: bool,
) -> Row:
    status = row_status(system, systems, withheld)
    if system is None or status is not None:
        return Row(label, (), status, ruled)
    seeds = [
        {name: result.mean(scope.f1, name) for name in average.weights}
        for result in systems[system]
    ]
    means = {name: fmean(cells[name] for cells in seeds) for name in average.weights}
    spread = stdev([average.of(cells) for cells in seeds]) if len(seeds) > 1 else None
    cells: list[Cell] = [*means.values(), average.of(means), spread]
    if scope.comparable:
        cells += _beside_published(label, average, scope, average.of(means))
    return Row(label, tuple(cells), None, ruled)


def _beside_published(label: str, average: Average, scope: Scope, ours: float) -> list[Cell]:
    """The paper's average, recomputed from its cells, and our difference to it."""
    cells = main_cells(label, scope.backbone or "")
    if not set(average.weights) <= set(cells):
        return [None, None]
    return [average.of(cells), ours - average.of(cells)]


def _published_footnotes(scope: Scope) -> list[str]:
    """Where the paper's printed average is not the average of its cells."""
    if not scope.comparable:
        return []
    average = scope.average_of([*scope.kinds])
    notes = []
    for method in methods():
        cells = main_cells(method, scope.backbone or "")
        fault = average_fault(cells, average) if set(scope.kinds) <= set(cells) else None
        if fault is not None:
            notes.append(
                f"{method}: the paper prints {cells['avg']:.3f}, its cells give {fault:.3f}"
            )
    return [*notes, f"Published numbers: {scope.backbone}, averages recomputed from the cells"]


def oracle_table(
    results: Sequence[Result],
    *,
    scope: Scope,
    statistics: Statistics,
    withheld: Mapping[str, str],
    standard: str = "retrieval_only",
    oracle: str = "oracle",
) -> Table:
    """Table 1: standard against oracle retrieval, the gap with its interval, and the headroom."""
    check_comparable(results, scope)
    names = datasets(results, scope)
    systems = by_system(results)
    sides = {"Standard": standard, "Oracle": oracle}
    states = {label: row_status(side, systems, withheld) for label, side in sides.items()}
    total = Column(f"avg ({scope.average})")
    average = None
    if any(states.values()):
        rows = [Row(label, (), states[label] or "the other side is missing") for label in sides]
    else:
        left, right = systems[standard], systems[oracle]
        found = gaps(left, right, scope=scope, statistics=statistics)
        rows = _oracle_rows({gap.name: gap for gap in found}, statistics.level)
        average = _kind_weights(scope.average_of(names), scope)
    return Table(
        "oracle",
        "Standard against oracle retrieval (layout of Table 1)",
        scope.f1_note(names),
        scope.profile,
        (Column("single"), Column("multi"), total),
        tuple(rows),
        (
            "Not shown: under standard retrieval an answer is in D_N but none is in D_K;"
            " of a question: in some call, while no call showed one.",
        ),
        head="Retrieval",
        average=None if average is None else (total.name, average),
    )


def _oracle_rows(found: Mapping[str, Gap], level: float) -> list[Row]:
    shown = [found.get(name) for name in (*KINDS, "average")]

    def row(label: str, cell: Callable[[Gap], Cell]) -> Row:
        return Row(label, tuple(None if gap is None else cell(gap) for gap in shown))

    return [
        row("Standard", lambda gap: gap.standard),
        row("Oracle", lambda gap: gap.oracle),
        row("Relative gain", lambda gap: _percent(gap.relative_gain, signed=True)),
        row("Difference", lambda gap: f"{gap.interval.estimate:+.3f}"),
        row(f"{level:.0%} interval", lambda gap: _span(gap.interval)),
        row("Verdict", lambda gap: gap.interval.verdict),
        row("Not shown, of calls", lambda gap: _percent(gap.calls_headroom, scale=100)),
        row("Not shown, of questions", lambda gap: _percent(gap.questions_headroom, scale=100)),
    ]


def _kind_weights(average: Average, scope: Scope) -> Average | None:
    """The average over the columns single and multi; None where one of them is empty."""
    weights = dict.fromkeys(KINDS, 0.0)
    for name, weight in average.weights.items():
        weights[scope.kinds[name]] += weight
    return Average(average.name, weights) if all(weights.values()) else None


def comparison_table(
    results: Sequence[Result],
    comparisons: Sequence[Comparison],
    *,
    scope: Scope,
    statistics: Statistics,
    withheld: Mapping[str, str],
) -> Table:
    """Declared comparisons: difference, paired interval, verdict, and what could be detected."""
    check_comparable(results, scope)
    rows = [
        _comparison_row(
            compare(results, one, scope=scope, statistics=statistics, withheld=withheld), scope
        )
        for one in comparisons
    ]
    level = f"{statistics.level:.0%}"
    seeds = "questions and seeds" if statistics.resample_seeds else "questions"
    return Table(
        "comparisons",
        "Comparisons",
        scope.note(
            f"F1 (rule {scope.rule}) and EM: average {scope.average};"
            " Hit@k given an answer in D_N: pooled over calls",
            f"{level} percentile interval, {statistics.draws} paired bootstrap draws over {seeds}",
        ),
        scope.profile,
        (
            Column("metric", text=True),
            Column("left"),
            Column("right"),
            Column("difference", signed=True),
            Column(f"{level} low", signed=True),
            Column(f"{level} high", signed=True),
            Column("verdict", text=True),
            Column("detectable"),
            Column("by seed"),
        ),
        tuple(rows),
        (
            f"Detectable: the smallest true difference found in {statistics.power:.0%} of such"
            " evaluations.",
            "Hit@k of two systems rests on different queries: each agent asks its own.",
        ),
        head="Left against right",
    )


def _comparison_row(outcome: Outcome, scope: Scope) -> Row:
    one = outcome.comparison
    left, right = (scope.labels.get(side, side) for side in (one.left, one.right))
    label = f"{left} against {right}"
    if outcome.interval is None:
        return Row(f"{label}, {one.metric}", (), outcome.status)
    return Row(
        label,
        (
            one.metric,
            outcome.left,
            outcome.right,
            outcome.interval.estimate,
            outcome.interval.low,
            outcome.interval.high,
            outcome.interval.verdict,
            outcome.detectable,
            " ".join(f"{difference:+.3f}" for difference in outcome.by_seed),
        ),
    )


def _seed_footnotes(
    systems: Mapping[str, Sequence[Result]], scope: Scope, withheld: Mapping[str, str]
) -> list[str]:
    """Which seeds stand behind the rows that print numbers, where any has several."""
    seeds = {
        scope.labels[system]: [one.seed for one in found]
        for system, found in systems.items()
        if system not in withheld
    }
    if all(len(found) == 1 for found in seeds.values()):
        return []
    texts = [f"{label} {', '.join(map(str, found))}" for label, found in seeds.items()]
    return ["Means over seeds: " + "; ".join(texts)]


def _percent(value: float | None, *, scale: float = 1, signed: bool = False) -> str | None:
    return None if value is None else f"{scale * value:{'+' if signed else ''}.1f} %"


def _span(interval: Interval) -> str:
    return f"[{interval.low:+.3f}, {interval.high:+.3f}]"
