"""How much better the agent answers with the oracle's order (Sections 2.2 and 4.2, Eq. 7)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

import polars as pl

from cosearch.paper.published import AVERAGE, gap_cells
from cosearch.params.rows import OraclePair
from cosearch.scores.averages import KINDS, Average, over_kinds, sets_and_kinds
from cosearch.statistics.bootstrap import Interval
from cosearch.statistics.comparisons import Seeds, common_seeds, mean_interval
from cosearch.statistics.results import ResultSet
from cosearch.tables.contrasts import interval_note
from cosearch.tables.layout import Cell, Column, PrintedRow, Table, signed_text

_SIDES = {"Standard": "Standard", "Oracle": "Oracle Retrieval"}
"""The label of our row -> the label of the paper's row in Table 1."""
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


def gaps(results: ResultSet, pair: OraclePair) -> list[Gap]:
    """Gaps in F1 per data set, per kind that is there, and of the scope's average.

    They use the seeds that both sides have. Raises ValueError where there is no such seed.
    """
    standard, oracle = common_seeds(results.seeds_of(pair.standard), results.seeds_of(pair.oracle))
    if not standard:
        raise ValueError("standard and oracle retrieval have no seed in common")
    shared = replace(results, evaluated=[*standard, *oracle])
    looks = sets_and_kinds(shared.kinds) | {"average": shared.average}
    return [_gap(name, look, standard, oracle, results) for name, look in looks.items()]


def _gap(name: str, look: Average, standard: Seeds, oracle: Seeds, results: ResultSet) -> Gap:
    calls, unseen = _headroom(standard, list(look.weights))
    f1 = results.scope.f1
    return Gap(
        name,
        seed_mean(standard, f1, look),
        seed_mean(oracle, f1, look),
        mean_interval(oracle, standard, f1, look, results.statistics),
        calls,
        unseen,
    )


def seed_mean(results: Seeds, column: str, look: Average) -> float:
    """Mean over seeds of an average."""
    values = [look.of({name: one.mean(column, name) for name in look.weights}) for one in results]
    return fsum(values) / len(values)


def _headroom(results: Seeds, names: Sequence[str]) -> tuple[float | None, float]:
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


def oracle_table(results: ResultSet, pair: OraclePair) -> Table:
    """Table 1: standard against oracle retrieval, the gap with its interval, and the headroom."""
    chosen, scope = results.pair(pair.standard, pair.oracle), results.scope
    sides = {"Standard": pair.standard, "Oracle": pair.oracle}
    states = {label: chosen.missing(side) for label, side in sides.items()}
    total = Column(f"avg ({scope.average})")
    average = None
    if any(states.values()):
        rows = [
            PrintedRow(label, (), states[label] or "the other side is missing") for label in sides
        ]
    else:
        rows = _rows({gap.name: gap for gap in gaps(chosen, pair)}, pair, results.statistics.level)
        average = over_kinds(chosen.average, scope.kinds)
    if backbone := scope.published(pair.backbone):
        rows += _published_rows(backbone)
    return Table(
        f"oracle_{pair.name}",
        f"Standard against oracle retrieval, {pair.name} agent (layout of Table 1)",
        f"{scope.f1_note(chosen.datasets)} {interval_note(chosen)}.",
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


def _rows(found: Mapping[str, Gap], pair: OraclePair, level: float) -> list[PrintedRow]:
    shown = [found.get(name) for name in (*KINDS, "average")]

    def row(label: str, cell: Callable[[Gap], Cell], system: str = pair.oracle) -> PrintedRow:
        cells = tuple(None if gap is None else cell(gap) for gap in shown)
        return PrintedRow(label, cells, systems=(system,))

    return [
        row("Standard", lambda gap: gap.standard, pair.standard),
        row("Oracle", lambda gap: gap.oracle),
        row("Relative gain", lambda gap: _percent(gap.relative_gain, signed=True)),
        row("Difference", lambda gap: signed_text(gap.interval.estimate)),
        row(f"{level:.0%} interval", lambda gap: _span(gap.interval)),
        row("Verdict", lambda gap: gap.interval.verdict),
        row("Seeds", lambda gap: str(gap.interval.seeds)),
        row("Not shown, of calls", lambda gap: _share(gap.calls_headroom), pair.standard),
        row("Not shown, of questions", lambda gap: _share(gap.questions_headroom), pair.standard),
    ]


def _published_rows(backbone: str) -> list[PrintedRow]:
    """Table 1 as printed, below a rule. The cells are texts, so that ``Table`` does not compare the
    paper's averages, which are rounded, with its cells."""
    rows: list[PrintedRow] = []
    for label, method in _SIDES.items():
        cells = gap_cells(method, backbone)
        texts = tuple(f"{cells[name]:.3f}" if name in cells else None for name in _PRINTED)
        rows.append(PrintedRow(f"Paper: {label}", texts, ruled=not rows))
    gains = gap_cells("Rel. Gain", backbone)
    return [
        *rows,
        PrintedRow("Paper: relative gain", tuple(_gain(gains, name) for name in _PRINTED)),
    ]


def _gain(gains: Mapping[str, float], name: str) -> str | None:
    return _percent(gains.get(name), signed=True)


def _share(value: float | None) -> str | None:
    return None if value is None else _percent(100 * value)


def _percent(value: float | None, *, signed: bool = False) -> str | None:
    return None if value is None else f"{value:{'+' if signed else ''}.1f} %"


def _span(interval: Interval) -> str:
    return f"[{signed_text(interval.low)}, {signed_text(interval.high)}]"
