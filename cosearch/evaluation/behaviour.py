"""Tables of behaviour: what the agent was shown, how often it searched, what a question cost."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from cosearch.evaluation.layout import Column, Row, Table
from cosearch.evaluation.metrics import cutoffs_of, pooled
from cosearch.evaluation.results import Result, Scope, by_system, check_comparable, row_status

Values = Sequence[float | None]


def retrieval_table(
    results: Sequence[Result], *, scope: Scope, withheld: Mapping[str, str]
) -> Table:
    """Hit@k of each system's ranker, and of the retriever's own order on the same calls."""
    cutoffs = [str(k) for k in cutoffs_of(results[0].calls)] if results else []

    def read(result: Result) -> Values:
        numbers = pooled(result.predictions, result.calls)
        hits = [numbers[order][k] for k in cutoffs for order in ("hit", "retriever_hit")]
        return [*hits, numbers["zero_answer_lists"], numbers["ranker_malformed"]]

    names = [f"{order}Hit@{k}" for k in cutoffs for order in ("", "retriever ")]
    return Table(
        "retrieval",
        "What the agent was shown",
        scope.note("Hit@k given an answer in D_N, pooled over calls, mean over seeds"),
        scope.profile,
        tuple(map(Column, [*names, "no answer in D_N", "malformed rankings"])),
        _rows(results, read, scope, withheld),
        ("Retriever Hit@k: the retriever's own order on the very calls of the row's agent.",),
    )


def searches_table(
    results: Sequence[Result], *, scope: Scope, withheld: Mapping[str, str]
) -> Table:
    """Table 7: percent of questions with so many searches, and the mean number."""
    most = max((max(one.predictions["searches"]) for one in results), default=0)

    def read(result: Result) -> Values:
        made = result.predictions["searches"].to_list()
        return [*(100 * made.count(n) / len(made) for n in range(most + 1)), fmean(made)]

    return Table(
        "searches",
        "Searches per question (layout of Table 7)",
        scope.note("Percent of questions, pooled over data sets, mean over seeds"),
        scope.profile,
        (*(Column(f"{n} (%)", 1) for n in range(most + 1)), Column("mean", 2)),
        _rows(results, read, scope, withheld),
    )


def cost_table(
    results: Sequence[Result],
    *,
    scope: Scope,
    withheld: Mapping[str, str],
    seconds: Mapping[str, float] | None = None,
) -> Table:
    """Searches and tokens per question; ``seconds`` per question where timings are at hand."""
    kinds = ("agent", "context", "ranker", "ranker_context")

    def read(result: Result) -> Values:
        numbers = pooled(result.predictions, result.calls)
        cells = [numbers["searches"], *(numbers["tokens"][kind] for kind in kinds)]
        return cells if seconds is None else [*cells, seconds.get(result.system)]

    names = ("agent sampled", "agent read", "ranker sampled", "ranker read")
    columns = [Column("searches", 2), *(Column(name, 1) for name in names)]
    return Table(
        "cost",
        "Cost of a question",
        scope.note("Means over questions and seeds; tokens sampled and tokens read"),
        scope.profile,
        (*columns, *([] if seconds is None else [Column("seconds", 2)])),
        _rows(results, read, scope, withheld),
    )


def _rows(
    results: Sequence[Result],
    read: Callable[[Result], Values],
    scope: Scope,
    withheld: Mapping[str, str],
) -> tuple[Row, ...]:
    """A row per system of the scope: what ``read`` finds, mean over seeds."""
    check_comparable(results, scope)
    systems = by_system(results)
    rows = []
    for system, label in scope.labels.items():
        status = row_status(system, systems, withheld)
        seeds = [] if status else [read(one) for one in systems[system]]
        rows.append(Row(label, tuple(map(_mean, zip(*seeds, strict=True))), status))
    return tuple(rows)


def _mean(values: Values) -> float | None:
    """None where one seed has no value: a mean over other seeds would be another number."""
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None
