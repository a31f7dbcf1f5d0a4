"""Tables of behaviour: what the agent was shown, how often it searched, what a question cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from cosearch.paper.published import searches_cells
from cosearch.scores.metrics import TOKENS, cutoffs_of, pooled
from cosearch.statistics.results import Block, Result, Scope, by_system, row_status
from cosearch.tables.layout import Column, Row, Table

Values = Sequence[float | None]

_SUMMARY = (Column("1-2 (%)", 1), Column("mean", 2))


def retrieval_table(
    results: Sequence[Result], *, scope: Scope, status: Mapping[str, str], block: Block
) -> Table:
    """Hit@k of each system's ranker, and of the retriever's own order on the same calls."""
    chosen = block.chosen(results, scope)
    cutoffs = [str(k) for k in cutoffs_of(chosen[0].calls)] if chosen else []

    def read(result: Result) -> Values:
        numbers = pooled(result.predictions, result.calls)
        hits = [numbers[order][k] for k in cutoffs for order in ("hit", "retriever_hit")]
        return [*hits, numbers["zero_answer_lists"], numbers["ranker_malformed"]]

    names = [f"{order}Hit@{k}" for k in cutoffs for order in ("", "retriever ")]
    return Table(
        f"retrieval_{block.name}",
        f"What the agent was shown, {block.name} agent",
        scope.note("Hit@k given an answer in D_N, pooled over calls, mean over seeds"),
        scope.profile,
        tuple(map(Column, [*names, "no answer in D_N", "malformed rankings"])),
        _rows(results, read, scope, status, block),
        ("Retriever Hit@k: the retriever's own order on the very calls of the row's agent.",),
    )


def searches_table(
    results: Sequence[Result], *, scope: Scope, status: Mapping[str, str], block: Block
) -> Table:
    """Table 7: percent of questions with so many searches, the share with one or two, the mean.

    Under profile ``paper`` the published row stands beside ours, column by column.
    """
    chosen = block.chosen(results, scope)
    backbone = block.published(scope)
    paper = {row: searches_cells(row.label, backbone) for row in block.rows if backbone}
    most = max((max(one.predictions["searches"]) for one in chosen), default=0)
    most = max([most, *(int(n) for cells in paper.values() for n in cells if n.isdigit())])

    def read(result: Result) -> Values:
        made = result.predictions["searches"].to_list()
        percents = [100 * made.count(n) / len(made) for n in range(most + 1)]
        return [*percents, sum(percents[1:3]), fmean(made)]

    columns = [*(Column(f"{n} (%)", 1) for n in range(most + 1)), *_SUMMARY]
    rows = _rows(results, read, scope, status, block)
    if paper:
        columns += [Column(f"paper {column.name}", column.digits) for column in columns]
        rows = tuple(
            replace(row, cells=(*row.cells, *_published_searches(paper[of], most)))
            if row.status is None
            else row
            for row, of in zip(rows, block.rows, strict=True)
        )
    return Table(
        f"searches_{block.name}",
        f"Searches per question, {block.name} agent (layout of Table 7)",
        scope.note("Percent of questions, pooled over data sets, mean over seeds"),
        scope.profile,
        tuple(columns),
        rows,
    )


def _published_searches(cells: Mapping[str, float], most: int) -> Values:
    if not cells:
        return [None] * (most + 1 + len(_SUMMARY))
    numbers = [cells.get(str(n)) for n in range(most + 1)]
    return [*numbers, cells["1"] + cells["2"], cells["mean"]]


def cost_table(
    results: Sequence[Result],
    *,
    scope: Scope,
    status: Mapping[str, str],
    block: Block,
    seconds: Mapping[str, float] | None = None,
) -> Table:
    """Searches and tokens per question; ``seconds`` per question where timings are at hand."""

    def read(result: Result) -> Values:
        numbers = pooled(result.predictions, result.calls)
        cells = [numbers["searches"], *(numbers["tokens"][kind] for kind in TOKENS)]
        return cells if seconds is None else [*cells, seconds.get(result.system)]

    names = (
        *("agent sampled", "agent read", "ranker sampled", "ranker read"),
        *("notes sampled", "notes read"),
    )
    columns = [Column("searches", 2), *(Column(name, 1) for name in names)]
    return Table(
        f"cost_{block.name}",
        f"Cost of a question, {block.name} agent",
        scope.note("Means over questions and seeds; tokens sampled and tokens read"),
        scope.profile,
        (*columns, *([] if seconds is None else [Column("seconds", 2, clock=True)])),
        _rows(results, read, scope, status, block),
    )


def _rows(
    results: Sequence[Result],
    read: Callable[[Result], Values],
    scope: Scope,
    status: Mapping[str, str],
    block: Block,
) -> tuple[Row, ...]:
    """A row per row of the block: what ``read`` finds, mean over seeds."""
    systems = by_system(block.chosen(results, scope))
    rows = []
    for row in block.rows:
        why = row_status(row.system, systems, status)
        seeds = [] if why else [read(one) for one in systems[row.system]]
        rows.append(Row(row.label, tuple(map(_mean, zip(*seeds, strict=True))), why))
    return tuple(rows)


def _mean(values: Values) -> float | None:
    """None where one seed has no value: a mean over other seeds would be another number."""
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None
