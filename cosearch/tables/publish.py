"""From the evidence of a scope to files: its tables and its learning curves."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from cosearch.files.artifacts import Paths, write_text
from cosearch.paper.check import check_paper
from cosearch.params.rows import TableBlock
from cosearch.statistics.scope import Scope
from cosearch.tables.ablations import ablation_table, walk_table
from cosearch.tables.behaviour import cost_table, retrieval_table, searches_table
from cosearch.tables.contrasts import comparison_table, detectable_table
from cosearch.tables.evidence import Evidence
from cosearch.tables.grid import grid_change_table, grid_table, read_grid
from cosearch.tables.groups import group_rounds, groups_table
from cosearch.tables.layout import Column, PrintedRow, Table
from cosearch.tables.main import main_table, scores_table
from cosearch.tables.oracle_gap import oracle_table
from cosearch.tables.panels import PANELS
from cosearch.tables.paper_check import paper_check_table
from cosearch.tables.verdicts import published_table


def main_blocks(found: Evidence) -> list[TableBlock]:
    """The blocks of Table 2 of which the scope holds a row."""
    return [block for block in found.tables.main if _known(found, block)]


def _known(found: Evidence, block: TableBlock) -> list[str]:
    return found.results.known(row.system for row in block.rows)


def result_tables(found: Evidence) -> Iterator[Table]:
    """Table 2 with its scores and verdicts, the comparisons, and what they can detect."""
    results = found.results
    for block in main_blocks(found):
        yield main_table(results, block)
        yield scores_table(results, block)
        if found.scope.published(block.backbone):
            yield published_table(results, block)
    made = [one for one in found.comparisons if results.knows_all(one.left, one.right)]
    yield comparison_table(results, made)
    pair = found.tables.detectable
    if results.knows_all(pair.left, pair.right):
        yield detectable_table(results, pair)


def oracle_gap_tables(found: Evidence) -> list[Table]:
    """Standard against oracle retrieval (Table 1), of every pair that the scope holds."""
    return [
        oracle_table(found.results, pair)
        for pair in found.tables.oracle
        if found.results.knows_all(pair.standard, pair.oracle)
    ]


def ablation_tables(found: Evidence) -> Iterator[Table]:
    """Table 3, the walk from one preset to the other, and Table 4.

    Each is made only where the scope holds something to compare: for Table 3 and the walk at least
    two rows, for Table 4 at least two values of K.
    """
    for block, build in ((found.tables.ablations, ablation_table), (found.tables.walk, walk_table)):
        if len(_known(found, block)) > 1:
            yield build(found.results, block)
    grid = read_grid(found.results, found.tables.grid, found.k_of, found.top_k)
    if len(grid.ks) > 1:
        yield grid_table(found.results, grid, found.tables.grid.backbone)
        yield grid_change_table(found.results, grid)


def behaviour_tables(found: Evidence, seconds: Mapping[str, float] | None = None) -> list[Table]:
    """What the agent was shown, its searches (Table 7), and cost, per block of Table 2.

    ``seconds``: system -> seconds per question, where timings are at hand.
    """
    return [
        table
        for block in main_blocks(found)
        for table in (
            retrieval_table(found.results, block),
            searches_table(found.results, block),
            cost_table(found.results, block, seconds),
        )
    ]


def training_tables(found: Evidence) -> Iterator[Table]:
    """Groups before and after the k_min filter."""
    frames = {
        variant: [
            group_rounds(folder / "rollouts", found.groups[variant])
            for folder in found.runs[variant]
        ]
        for variant in found.tables.groups
        if variant in found.runs
    }
    if frames:
        yield groups_table(frames, scope=found.scope)


def all_tables(found: Evidence) -> list[Table]:
    """Every table of a scope but Table 1, which has a stage of its own."""
    return [
        *result_tables(found),
        *ablation_tables(found),
        *behaviour_tables(found),
        *training_tables(found),
        paper_check_table(check_paper()),
    ]


def retriever_table(paths: Paths, scope: Scope) -> Table:
    """The retriever beside BM25 per data set, read from the retrieval stage's tidy CSV."""
    tidy = pl.read_csv(paths.retrieval / "retrieval.csv")
    metrics = tidy["metric"].unique(maintain_order=True).to_list()
    rows = [
        PrintedRow(f"{dataset}, {system}", tuple(_cell(part, metric) for metric in metrics))
        for (dataset, system), part in tidy.group_by("dataset", "system", maintain_order=True)
    ]
    note = scope.note(
        "The question is the query; hit@k: an answer-bearing passage in the top k; cut: share of"
        " questions, and of passages in the row of the corpus, that the encoder reads in part"
    )
    return Table(
        "retriever", "Retriever quality", note, scope.profile,
        tuple(Column(metric) for metric in metrics), tuple(rows), head="Data set, system",
    )  # fmt: skip


def _cell(part: pl.DataFrame, metric: str) -> float | None:
    values = part.filter(pl.col("metric") == metric)["value"].to_list()
    return float(values[0]) if values else None


def write_tables(tables: Sequence[Table], target: Path) -> None:
    """Write each table as Markdown, CSV and LaTeX. The folder is made even without any table.

    Files of tables that are no longer made are removed; DVC leaves the folder as it is.
    """
    target.mkdir(parents=True, exist_ok=True)
    forms = {
        f"{table.name}.{suffix}": form
        for table in tables
        for suffix, form in (("md", table.markdown), ("csv", table.csv), ("tex", table.latex))
    }
    for name, form in forms.items():
        write_text(target / name, form())
    for path in target.iterdir():
        if path.name not in forms:
            path.unlink()


def read_curves(found: Evidence) -> dict[str, list[pl.DataFrame]]:
    """Per-round metrics of every variant and seed."""
    return {
        variant: [
            pl.read_csv(folder / "metrics.csv", infer_schema_length=None) for folder in folders
        ]
        for variant, folders in found.runs.items()
    }


def write_curves(runs: Mapping[str, Sequence[pl.DataFrame]], target: Path) -> None:
    """Write the curves as one tidy CSV for ``dvc plots show``."""
    parts = [
        frame.select(
            pl.lit(f"{variant}-{number}").alias("run"),
            pl.col("round").cast(pl.Int64),
            *(
                (pl.col(panel.column) if panel.column in frame.columns else pl.lit(None))
                .cast(pl.Float64)
                .alias(panel.column)
                for panel in PANELS
            ),
        )
        for variant, frames in runs.items()
        for number, frame in enumerate(frames)
    ]
    columns = ["run", "round", *(panel.column for panel in PANELS)]
    frame = pl.concat(parts) if parts else pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    write_text(target / "curves.csv", frame.write_csv())
