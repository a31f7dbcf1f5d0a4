"""How much better the agent would answer with the oracle's order (Sections 2.2 and 4.2, Eq. 7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

import polars as pl

from cosearch.evaluation.averages import KINDS, Average, kind_average
from cosearch.evaluation.bootstrap import Interval
from cosearch.evaluation.comparisons import Statistics, common_seeds, mean_interval
from cosearch.evaluation.results import Result, Scope, datasets


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
