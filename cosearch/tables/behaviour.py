"""Tables of behaviour: what the agent was shown, how often it searched, what a question cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from cosearch.core.shown import LEFT_OUT
from cosearch.paper.published import searches_cells
from cosearch.params.rows import TableBlock
from cosearch.scores.metrics import TOKENS, cutoffs_of, pooled
from cosearch.statistics.results import Result, ResultSet
from cosearch.tables.block_rows import SEEDS, block_rows
from cosearch.tables.layout import Column, PrintedRow, Table

Values = Sequence[float | None]

_EXPOSURE = (
    Column("answer shown"),
    Column("documents shown", 2),
    Column("answers hidden from ranker"),
)
_LEFT_OUT = tuple(
    Column(name, 2)
    for name in (
        *("agent dropped", "agent cut", "ranker dropped", "ranker cut"),
        *("notes dropped", "notes cut", "queries cut"),
    )
)
_SUMMARY = (Column("1-2 (%)", 1), Column("mean", 2))


def retrieval_table(results: ResultSet, block: TableBlock) -> Table:
    """Hit@k of each system's ranker, and of the retriever's own order on the same calls."""
    chosen = results.of_block(block)
    cutoffs = [str(k) for k in cutoffs_of(chosen.evaluated[0].calls)] if chosen.evaluated else []

    def read(result: Result) -> Values:
        numbers = pooled(result.predictions, result.calls)
        hits = [numbers[order][k] for k in cutoffs for order in ("hit", "retriever_hit")]
        hidden = _share(numbers["hidden_candidates"], numbers["relevant_candidates"])
        shown = (numbers["shown_answer"], numbers["shown_documents"], hidden)
        return [*hits, numbers["zero_answer_lists"], numbers["ranker_malformed"], *shown]

    names = [f"{order}Hit@{k}" for k in cutoffs for order in ("", "retriever ")]
    return Table(
        f"retrieval_{block.name}",
        f"What the agent was shown, {block.name} agent",
        results.scope.note("Hit@k given an answer in D_N, pooled over calls, mean over seeds"),
        results.scope.profile,
        (*map(Column, [*names, "no answer in D_N", "malformed rankings"]), *_EXPOSURE, SEEDS),
        _rows(chosen, block, read),
        (
            "Retriever Hit@k: the retriever's own order on the very calls of the row's agent.",
            "Answer shown: the agent read one, given an answer in D_N; documents that did not fit"
            " and the ends of cut texts do not count. Documents shown: mean per call; a note"
            " counts as one. Answers hidden from the ranker: share of D_N's passages with an answer"
            " of which its prompt held none.",
        ),
    )


def searches_table(results: ResultSet, block: TableBlock) -> Table:
    """Table 7: percent of questions with so many searches, the share with one or two, the mean.

    Under profile ``paper`` the published row stands beside ours, column by column.
    """
    chosen = results.of_block(block)
    backbone = results.scope.published(block.backbone)
    paper = {row: searches_cells(row.label, backbone) for row in block.rows if backbone}
    most = max((max(one.predictions["searches"]) for one in chosen.evaluated), default=0)
    most = max([most, *(int(n) for cells in paper.values() for n in cells if n.isdigit())])

    def read(result: Result) -> Values:
        made = result.predictions["searches"].to_list()
        percents = [100 * made.count(n) / len(made) for n in range(most + 1)]
        return [*percents, sum(percents[1:3]), fmean(made)]

    columns = [*(Column(f"{n} (%)", 1) for n in range(most + 1)), *_SUMMARY]
    rows = _rows(chosen, block, read)
    if paper:
        columns += [Column(f"paper {column.name}", column.digits) for column in columns]
        rows = tuple(
            replace(
                row, cells=(*row.cells[:-1], *_published_searches(paper[of], most), row.cells[-1])
            )
            if row.status is None
            else row
            for row, of in zip(rows, block.rows, strict=True)
        )
    return Table(
        f"searches_{block.name}",
        f"Searches per question, {block.name} agent (layout of Table 7)",
        results.scope.note("Percent of questions, pooled over data sets, mean over seeds"),
        results.scope.profile,
        (*columns, SEEDS),
        rows,
    )


def _published_searches(cells: Mapping[str, float], most: int) -> Values:
    if not cells:
        return [None] * (most + 1 + len(_SUMMARY))
    numbers = [cells.get(str(n)) for n in range(most + 1)]
    return [*numbers, cells["1"] + cells["2"], cells["mean"]]


def cost_table(
    results: ResultSet, block: TableBlock, seconds: Mapping[str, float] | None = None
) -> Table:
    """Searches, tokens, and what prompts left out, per question.

    ``seconds``: system -> seconds per question; the table has that column only where it is given.
    """

    def read(result: Result) -> Values:
        numbers = pooled(result.predictions, result.calls)
        cells = [numbers["searches"], *(numbers["tokens"][kind] for kind in TOKENS)]
        cells += [numbers[name] / numbers["questions"] for name in (*LEFT_OUT, "cut_queries")]
        return cells if seconds is None else [*cells, seconds.get(result.system)]

    names = (
        *("agent sampled", "agent read", "ranker sampled", "ranker read"),
        *("notes sampled", "notes read"),
    )
    columns = [Column("searches", 2), *(Column(name, 1) for name in names), *_LEFT_OUT]
    return Table(
        f"cost_{block.name}",
        f"Cost of a question, {block.name} agent",
        results.scope.note("Means over questions and seeds; tokens sampled and tokens read"),
        results.scope.profile,
        (*columns, *([] if seconds is None else [Column("seconds", 2, clock=True)]), SEEDS),
        _rows(results.of_block(block), block, read),
        (
            "Dropped: whole documents that did not fit into a prompt. Cut: documents of which the"
            " prompt held the beginning alone. Queries cut: those that the encoder did not read to"
            " their end.",
        ),
    )


def _rows(
    chosen: ResultSet, block: TableBlock, read: Callable[[Result], Values]
) -> tuple[PrintedRow, ...]:
    """One printed row per row of the block: the values that ``read`` finds, mean over seeds."""
    return block_rows(
        chosen,
        block,
        lambda row: map(_mean, zip(*map(read, chosen.seeds_of(row.system)), strict=True)),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _mean(values: Values) -> float | None:
    """The mean over seeds; None where one seed has no value, so that all means of a row are over
    the same seeds."""
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None
