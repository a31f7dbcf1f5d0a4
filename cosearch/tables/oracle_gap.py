"""How much better the agent would answer with the oracle's order (Sections 2.2 and 4.2, Eq. 7)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

import polars as pl

from cosearch.paper.published import AVERAGE, gap_cells
from cosearch.scores.averages import KINDS, Average, kind_average, over_kinds
from cosearch.statistics.bootstrap import Interval
from cosearch.statistics.comparisons import Statistics, common_seeds, mean_interval
from cosearch.statistics.results import (
    Result,
    Scope,
    by_system,
    check_comparable,
    datasets,
    row_status,
)
from cosearch.tables.contrasts import interval_note
from cosearch.tables.layout import Cell, Column, Row, Table

_SIDES = {"Standard": "Standard", "Oracle": "Oracle Retrieval"}
"""Our row -> the paper's in Table 1."""
_PRINTED = (*KINDS, AVERAGE)


@dataclass(frozen=True, slots=True)
class Gap:
    """``name``: a data set, ``single``, ``multi`` or ``average``. ``interval``: oracle - standard.

    ``calls_headroom``: share of the standard system's search calls with an answer in D_N and none
    in D_K as shown. ``questions_headroom``: share of questions with such a call and no call that
    showed an answer. Both pool the sets and seeds of the row; None without any call.
    """

    name: str
    standard: float
    oracle: float
    interval: Interval
    calls_headroom: float | None
    questions_headroom: float

    @property
    def relative_gain(self) -> float | None:
        """Percent of the standard value; None where that is 0."""
        return 100 * (self.oracle / self.standard - 1) if self.standard else None


def gaps(
    standard: Sequence[Result], oracle: Sequence[Result], *, scope: Scope, statistics: Statistics
) -> list[Gap]:
    """Gaps in F1 per data set, per kind that is there, and of the scope's average.

    Only seeds that both have count. Raises ValueError when there is none.
    """
    standard, oracle = common_seeds(standard, oracle)
    if not standard:
        raise ValueError("standard and oracle retrieval have no seed in common")
    names = datasets([*standard, *oracle], scope)
    kinds = {name: scope.kinds[name] for name in names}
    looks = {name: Average(name, {name: 1.0}) for name in names}
    looks |= {kind: kind_average(kind, kinds) for kind in KINDS if kind in kinds.values()}
    looks["average"] = scope.average_of(names)
    return [_gap(name, look, standard, oracle, scope, statistics) for name, look in looks.items()]


def _gap(
    name: str,
    look: Average,
    standard: Sequence[Result],
    oracle: Sequence[Result],
    scope: Scope,
    statistics: Statistics,
) -> Gap:
    calls, unseen = _headroom(standard, list(look.weights))
    return Gap(
        name,
        seed_mean(standard, scope.f1, look),
        seed_mean(oracle, scope.f1, look),
        mean_interval(oracle, standard, scope.f1, average=look, statistics=statistics),
        calls,
        unseen,
    )


def seed_mean(results: Sequence[Result], column: str, look: Average) -> float:
    """Mean over seeds of an average."""
    values = [look.of({name: one.mean(column, name) for name in look.weights}) for one in results]
    return fsum(values) / len(values)


def _headroom(results: Sequence[Result], names: Sequence[str]) -> tuple[float | None, float]:
    inside = pl.col("dataset").is_in(names)
    calls = pl.concat([result.calls.filter(inside) for result in results])
    asked = sum(result.predictions.filter(inside).height for result in results)
    hidden = calls["has_answer"] & ~calls["shown_answer"]
    by_question = (
        calls.with_columns(hidden.alias("hidden"))
        .group_by("seed", "dataset", "question_id")
        .agg(pl.col("hidden").any() & ~pl.col("shown_answer").any())
    )
    share = int(hidden.sum()) / calls.height if calls.height else None
    return share, int(by_question["hidden"].sum()) / asked


@dataclass(frozen=True, slots=True)
class Pair:
    """The two systems of Table 1 for one agent size. ``backbone``: see ``Block``."""

    name: str
    backbone: str | None
    standard: str
    oracle: str


def oracle_table(
    results: Sequence[Result],
    *,
    scope: Scope,
    statistics: Statistics,
    status: Mapping[str, str],
    pair: Pair,
) -> Table:
    """Table 1: standard against oracle retrieval, the gap with its interval, and the headroom."""
    sides = {"Standard": pair.standard, "Oracle": pair.oracle}
    chosen = [result for result in results if result.system in sides.values()]
    check_comparable(chosen, scope)
    names, systems = datasets(chosen, scope), by_system(chosen)
    states = {label: row_status(side, systems, status) for label, side in sides.items()}
    total = Column(f"avg ({scope.average})")
    average = None
    if any(states.values()):
        rows = [Row(label, (), states[label] or "the other side is missing") for label in sides]
    else:
        found = gaps(
            systems[pair.standard], systems[pair.oracle], scope=scope, statistics=statistics
        )
        rows = _rows({gap.name: gap for gap in found}, statistics.level)
        average = over_kinds(scope.average_of(names), scope.kinds)
    if scope.comparable and pair.backbone is not None:
        rows += _published_rows(pair.backbone)
    return Table(
        f"oracle_{pair.name}",
        f"Standard against oracle retrieval, {pair.name} agent (layout of Table 1)",
        f"{scope.f1_note(names)} {interval_note(statistics)}.",
        scope.profile,
        (Column("single"), Column("multi"), total),
        tuple(rows),
        (
            "Not shown: under standard retrieval an answer is in D_N but none is in D_K;"
            " of a question: in some call, while no call showed one.",
        ),
        head="Retrieval",
        averages=() if average is None else ((total.name, average),),
    )


def _rows(found: Mapping[str, Gap], level: float) -> list[Row]:
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


def _published_rows(backbone: str) -> list[Row]:
    """Table 1 as printed, below a rule; texts, since its rounded averages prove nothing."""
    rows: list[Row] = []
    for label, method in _SIDES.items():
        cells = gap_cells(method, backbone)
        texts = tuple(f"{cells[name]:.3f}" if name in cells else None for name in _PRINTED)
        rows.append(Row(f"Paper: {label}", texts, ruled=not rows))
    gains = gap_cells("Rel. Gain", backbone)
    return [*rows, Row("Paper: relative gain", tuple(_gain(gains, name) for name in _PRINTED))]


def _gain(gains: Mapping[str, float], name: str) -> str | None:
    return _percent(gains.get(name), signed=True)


def _percent(value: float | None, *, scale: float = 1, signed: bool = False) -> str | None:
    return None if value is None else f"{scale * value:{'+' if signed else ''}.1f} %"


def _span(interval: Interval) -> str:
    return f"[{interval.low:+.3f}, {interval.high:+.3f}]"
