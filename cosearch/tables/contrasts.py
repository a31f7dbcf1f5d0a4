"""Tables of declared comparisons, and of what so many questions can show at all."""

from collections.abc import Mapping, Sequence

from cosearch.scores.averages import KINDS, Average, every_average, kind_average
from cosearch.statistics.bootstrap import Interval, minimal_detectable_effect
from cosearch.statistics.comparisons import (
    Comparison,
    Outcome,
    Statistics,
    common_seeds,
    compare,
    mean_interval,
)
from cosearch.statistics.results import (
    Result,
    Scope,
    by_system,
    check_comparable,
    counts,
    datasets,
    row_status,
)
from cosearch.tables.layout import Cell, Column, Row, Table


def comparison_table(
    results: Sequence[Result],
    comparisons: Sequence[Comparison],
    *,
    scope: Scope,
    statistics: Statistics,
    status: Mapping[str, str],
) -> Table:
    """Declared comparisons: difference, paired interval, verdict, and what could be detected.

    Raises ValueError where the two sides of one of them must not stand together.
    """
    rows = [_comparison_row(one, results, scope, statistics, status) for one in comparisons]
    return Table(
        "comparisons",
        "Comparisons",
        scope.note(
            f"F1 (rule {scope.rule}) and EM: average {scope.average};"
            " Hit@k given an answer in D_N: pooled over calls",
            interval_note(statistics),
        ),
        scope.profile,
        (
            Column("metric", text=True),
            Column("left"),
            Column("right"),
            *interval_columns("", statistics),
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


def _comparison_row(
    one: Comparison,
    results: Sequence[Result],
    scope: Scope,
    statistics: Statistics,
    status: Mapping[str, str],
) -> Row:
    sides = [result for result in results if result.system in (one.left, one.right)]
    check_comparable(sides, scope)
    outcome: Outcome = compare(sides, one, scope=scope, statistics=statistics, status=status)
    label = f"{scope.label(one.left)} against {scope.label(one.right)}"
    if outcome.interval is None:
        return Row(f"{label}, {one.metric}", (), outcome.status)
    return Row(
        label,
        (
            one.metric,
            outcome.left,
            outcome.right,
            *interval_cells(outcome.interval),
            outcome.detectable,
            " ".join(f"{difference:+.3f}" for difference in outcome.by_seed),
        ),
    )


def detectable_table(
    results: Sequence[Result],
    *,
    scope: Scope,
    statistics: Statistics,
    status: Mapping[str, str],
    left: str,
    right: str,
) -> Table:
    """What so many questions can show: the smallest detectable F1 difference of one pair, per data
    set, kind and average."""
    chosen = [result for result in results if result.system in (left, right)]
    check_comparable(chosen, scope)
    systems, names = by_system(chosen), datasets(chosen, scope)
    states = {side: row_status(side, systems, status) for side in (left, right)}
    shared = common_seeds(systems.get(left, []), systems.get(right, []))
    if any(states.values()):
        rows = [
            Row(scope.label(side), (), why or "the other side is missing")
            for side, why in states.items()
        ]
    elif not shared[0]:
        rows = [Row(scope.label(left), (), "no seed in common")]
    else:
        sizes = counts(chosen)
        rows = [
            Row(name, _detectable_cells(look, sizes, shared, scope, statistics))
            for name, look in _looks(names, sizes, scope).items()
        ]
    return Table(
        "detectable",
        f"What this many questions can show: {scope.label(left)} against {scope.label(right)}",
        scope.note(
            f"F1 (rule {scope.rule})",
            f"Detectable: the smallest true difference that a {statistics.level:.0%} interval tells"
            f" from 0 in {statistics.power:.0%} of such evaluations",
        ),
        scope.profile,
        (
            Column("questions"),
            Column("difference", signed=True),
            Column("standard error", 4),
            Column("detectable"),
        ),
        tuple(rows),
        head="Data set or average",
    )


def _looks(names: Sequence[str], sizes: Mapping[str, int], scope: Scope) -> dict[str, Average]:
    """One set each, one kind each, then the averages."""
    kinds = {name: scope.kinds[name] for name in names}
    looks = {name: Average(name, {name: 1.0}) for name in names}
    looks |= {kind: kind_average(kind, kinds) for kind in KINDS if kind in kinds.values()}
    return looks | every_average(kinds, sizes)


def _detectable_cells(
    look: Average,
    sizes: Mapping[str, int],
    shared: tuple[Sequence[Result], Sequence[Result]],
    scope: Scope,
    statistics: Statistics,
) -> tuple[Cell, ...]:
    interval = mean_interval(*shared, scope.f1, average=look, statistics=statistics)
    smallest = minimal_detectable_effect(
        interval.standard_error, level=statistics.level, power=statistics.power
    )
    questions = sum(sizes[name] for name in look.weights)
    return questions, interval.estimate, interval.standard_error, smallest


def interval_columns(after: str, statistics: Statistics) -> tuple[Column, ...]:
    """Four columns for ``interval_cells``; ``after`` tells several of them apart."""
    level = f"{statistics.level:.0%}"
    return (
        Column(f"difference{after}", signed=True),
        Column(f"{level} low{after}", signed=True),
        Column(f"{level} high{after}", signed=True),
        Column(f"verdict{after}", text=True),
    )


def interval_cells(interval: Interval | None) -> tuple[Cell, ...]:
    """Estimate, bounds and verdict of a difference; empty cells where there is none."""
    if interval is None:
        return (None,) * 4
    return interval.estimate, interval.low, interval.high, interval.verdict


def interval_note(statistics: Statistics) -> str:
    """How the intervals of a table were made."""
    over = "questions and seeds" if statistics.resample_seeds else "questions"
    return (
        f"{statistics.level:.0%} percentile interval,"
        f" {statistics.draws} paired bootstrap draws over {over}"
    )
