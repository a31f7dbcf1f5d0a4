"""Tables of declared comparisons, and of the smallest difference that they can detect."""

from collections.abc import Sequence

from cosearch.params.rows import Comparison, Detectable, Statistics
from cosearch.scores.averages import Average, every_average, sets_and_kinds
from cosearch.statistics.bootstrap import Interval, minimal_detectable_effect
from cosearch.statistics.comparisons import Seeds, common_seeds, compare, mean_interval
from cosearch.statistics.results import ResultSet
from cosearch.tables.layout import Cell, Column, PrintedRow, Table, signed_text


def comparison_table(results: ResultSet, comparisons: Sequence[Comparison]) -> Table:
    """Declared comparisons: difference, paired interval, verdict, and what could be detected.

    Raises ValueError where the two sides of one of them must not stand together.
    """
    scope, statistics = results.scope, results.statistics
    return Table(
        "comparisons",
        "Comparisons",
        scope.note(
            f"F1 (rule {scope.rule}) and EM: average {scope.average};"
            " Hit@k given an answer in D_N: pooled over calls",
            interval_note(results),
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
        tuple(_comparison_row(results, one) for one in comparisons),
        (
            f"Detectable: the smallest true difference found in {statistics.power:.0%} of such"
            " evaluations.",
            "Hit@k of two systems rests on different queries: each agent asks its own.",
            *results.differing("top_k", _labels(results, comparisons)),
        ),
        head="Left against right",
    )


def _labels(results: ResultSet, comparisons: Sequence[Comparison]) -> dict[str, str]:
    """Every system that is compared, with its label."""
    systems = [side for one in comparisons for side in (one.left, one.right)]
    return {system: results.scope.label(system) for system in systems}


def _comparison_row(results: ResultSet, one: Comparison) -> PrintedRow:
    outcome = compare(results.pair(one.left, one.right), one)
    label = f"{results.scope.label(one.left)} against {results.scope.label(one.right)}"
    if outcome.interval is None:
        return PrintedRow(f"{label}, {one.metric}", (), outcome.status)
    return PrintedRow(
        label,
        (
            one.metric,
            outcome.left,
            outcome.right,
            *interval_cells(outcome.interval),
            outcome.detectable,
            " ".join(map(signed_text, outcome.by_seed)),
        ),
        systems=("", one.left, one.right, *[one.left] * 7),
    )


def detectable_table(results: ResultSet, pair: Detectable) -> Table:
    """The smallest F1 difference of one pair that so many questions can detect, per data set, kind
    and average."""
    scope, statistics = results.scope, results.statistics
    return Table(
        "detectable",
        "What this many questions can show:"
        f" {scope.label(pair.left)} against {scope.label(pair.right)}",
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
        tuple(_detectable_rows(results.pair(pair.left, pair.right), pair)),
        head="Data set or average",
    )


def _detectable_rows(chosen: ResultSet, pair: Detectable) -> list[PrintedRow]:
    label = chosen.scope.label
    states = {side: chosen.missing(side) for side in (pair.left, pair.right)}
    if any(states.values()):
        return [
            PrintedRow(label(side), (), why or "the other side is missing")
            for side, why in states.items()
        ]
    shared = common_seeds(chosen.seeds_of(pair.left), chosen.seeds_of(pair.right))
    if not shared[0]:
        return [PrintedRow(label(pair.left), (), "no seed in common")]
    looks = sets_and_kinds(chosen.kinds) | every_average(chosen.kinds, chosen.question_counts)
    return [
        PrintedRow(name, _detectable_cells(chosen, look, shared), systems=(pair.left,))
        for name, look in looks.items()
    ]


def _detectable_cells(
    chosen: ResultSet, look: Average, shared: tuple[Seeds, Seeds]
) -> tuple[Cell, ...]:
    statistics, counts = chosen.statistics, chosen.question_counts
    interval = mean_interval(*shared, chosen.scope.f1, look, statistics)
    smallest = minimal_detectable_effect(
        interval.standard_error, level=statistics.level, power=statistics.power
    )
    questions = sum(counts[name] for name in look.weights)
    return questions, interval.estimate, interval.standard_error, smallest


def interval_columns(after: str, statistics: Statistics) -> tuple[Column, ...]:
    """Five columns for ``interval_cells``; ``after`` ends their names, so that a table can hold
    several of them."""
    level = f"{statistics.level:.0%}"
    return (
        Column(f"difference{after}", signed=True),
        Column(f"{level} low{after}", signed=True),
        Column(f"{level} high{after}", signed=True),
        Column(f"verdict{after}", text=True),
        Column(f"seeds compared{after}"),
    )


def interval_cells(interval: Interval | None) -> tuple[Cell, ...]:
    """Estimate, bounds, verdict and number of seeds of a difference; empty cells where there is
    none."""
    if interval is None:
        return (None,) * 5
    return interval.estimate, interval.low, interval.high, interval.verdict, interval.seeds


def interval_note(results: ResultSet) -> str:
    """The sentences that say what the intervals of a table contain."""
    statistics = results.statistics
    level = f"{statistics.level:.0%}"
    seeds = {len(found) for found in results.by_system.values() if found[0].trained}
    told = [f"{level} interval over questions, {statistics.draws} paired bootstrap draws"]
    if seeds - {1}:
        told.append("several seeds: a t interval that their spread widens")
    if min(seeds, default=statistics.min_seeds) < statistics.min_seeds:
        told.append(
            "one seed: the chance of training is not in the interval, so it holds the true"
            f" difference less often than in {level} of all cases, and there is no verdict about"
            f" trained rows below {statistics.min_seeds} seeds"
        )
    return "; ".join(told)
