"""From the evidence of a scope to files: its tables, its summary and its learning curves."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from cosearch.files.artifacts import Paths, write_json, write_text
from cosearch.paper.check import check_paper, paper_check_table
from cosearch.report.curves import Panel
from cosearch.scores.metrics import summary
from cosearch.statistics.results import Block, Result, Scope, by_system
from cosearch.tables.ablations import ablation_table, walk_table
from cosearch.tables.behaviour import cost_table, retrieval_table, searches_table
from cosearch.tables.contrasts import comparison_table, detectable_table
from cosearch.tables.evidence import Evidence, block_of
from cosearch.tables.grid import grid_change_table, grid_table
from cosearch.tables.groups import group_rounds, groups_table
from cosearch.tables.layout import Column, Row, Table
from cosearch.tables.main import main_table, scores_table
from cosearch.tables.oracle_gap import Pair, oracle_table
from cosearch.tables.verdicts import published_table

PANELS = (
    Panel("dev_f1", "development F1"),
    Panel("dev_hit_1", "development Hit@1 given an answer in D_N"),
    Panel("r_main", "mean agent reward"),
    Panel("searches", "searches per trajectory"),
    Panel("ranker_well_formed", "well-formed rankings"),
    Panel("agent_entropy", "agent entropy (nats per token)"),
)


def main_blocks(found: Evidence) -> list[Block]:
    """The blocks of Table 2 of which the scope holds a row."""
    blocks = map(block_of, found.tables.main)
    return [block for block in blocks if found.known([row.system for row in block.rows])]


def result_tables(found: Evidence) -> Iterator[Table]:
    """Table 2 with its scores and verdicts, the comparisons, and what they could show."""
    scope, results, status = found.scope, found.results, found.status
    for block in main_blocks(found):
        yield main_table(results, scope=scope, status=status, block=block)
        yield scores_table(results, scope=scope, status=status, block=block)
        if block.published(scope):
            yield published_table(
                results, scope=scope, status=status, statistics=found.statistics, block=block
            )
    made = [one for one in found.comparisons if found.evaluated([one.left, one.right])]
    yield comparison_table(results, made, scope=scope, statistics=found.statistics, status=status)
    pair = found.tables.detectable
    if found.evaluated([pair.left, pair.right]):
        yield detectable_table(
            results,
            scope=scope,
            statistics=found.statistics,
            status=status,
            left=pair.left,
            right=pair.right,
        )


def oracle_gap_tables(found: Evidence) -> list[Table]:
    """Standard against oracle retrieval (Table 1), of every pair that the scope holds."""
    return [
        oracle_table(
            found.results,
            scope=found.scope,
            statistics=found.statistics,
            status=found.status,
            pair=Pair(**pair.model_dump()),
        )
        for pair in found.tables.oracle
        if found.evaluated([pair.standard, pair.oracle])
    ]


def ablation_tables(found: Evidence) -> Iterator[Table]:
    """Table 3, Table 4 and the walk from one preset to the other, where the scope holds more of
    them than their first row or column."""
    for spec, build in ((found.tables.ablations, ablation_table), (found.tables.walk, walk_table)):
        if len(found.known([row.system for row in spec.rows])) > 1:
            yield build(
                found.results,
                scope=found.scope,
                status=found.status,
                statistics=found.statistics,
                block=block_of(spec),
            )
    grid, status = _grid(found)
    if len({k for _, k in grid}) > 1:
        backbone = found.tables.grid.backbone
        yield grid_table(
            grid, scope=found.scope, status=status, default_k=found.top_k, backbone=backbone
        )
        yield grid_change_table(
            grid,
            scope=found.scope,
            statistics=found.statistics,
            status=status,
            default_k=found.top_k,
        )


def _grid(found: Evidence) -> tuple[dict[tuple[str, int], list[Result]], dict[str, str]]:
    """Results by (method, K), and the methods that have a status instead."""
    systems = by_system(found.results)
    grid: dict[tuple[str, int], list[Result]] = {}
    status = {}
    for row in found.tables.grid.rows:
        for system in row.systems:
            if system in found.status:
                status[row.label] = found.status[system]
            elif system in systems:
                grid[row.label, found.k_of[system]] = systems[system]
    return grid, status


def behaviour_tables(found: Evidence, seconds: Mapping[str, float] | None = None) -> list[Table]:
    """What the agent was shown, its searches (Table 7), and cost, per block of Table 2."""
    scope, results, status = found.scope, found.results, found.status
    return [
        table
        for block in main_blocks(found)
        for table in (
            retrieval_table(results, scope=scope, status=status, block=block),
            searches_table(results, scope=scope, status=status, block=block),
            cost_table(results, scope=scope, status=status, block=block, seconds=seconds),
        )
    ]


def training_tables(found: Evidence) -> Iterator[Table]:
    """Groups before and after the k_min filter."""
    frames = {
        found.scope.labels.get(variant, variant): [
            group_rounds(folder / "rollouts", found.groups[variant])
            for folder in found.runs[variant]
        ]
        for variant in found.tables.groups
        if variant in found.runs
    }
    if frames:
        yield groups_table(frames, scope=found.scope)


def check_table() -> Table:
    """What does not add up in the paper's own numbers."""
    return paper_check_table(check_paper())


def all_tables(found: Evidence) -> list[Table]:
    """Every table of a scope but Table 1, which has a stage of its own."""
    return [
        *result_tables(found),
        *ablation_tables(found),
        *behaviour_tables(found),
        *training_tables(found),
        check_table(),
    ]


def retriever_table(paths: Paths, scope: Scope) -> Table:
    """The retriever beside BM25 per data set, from the retrieval stage's tidy CSV."""
    tidy = pl.read_csv(paths.retrieval / "retrieval.csv")
    metrics = tidy["metric"].unique(maintain_order=True).to_list()
    rows = [
        Row(f"{dataset}, {system}", tuple(_cell(part, metric) for metric in metrics))
        for (dataset, system), part in tidy.group_by("dataset", "system", maintain_order=True)
    ]
    note = scope.note("The question is the query; hit@k: an answer-bearing passage in the top k")
    return Table(
        "retriever", "Retriever quality", note, scope.profile,
        tuple(Column(metric) for metric in metrics), tuple(rows), head="Data set, system",
    )  # fmt: skip


def _cell(part: pl.DataFrame, metric: str) -> float | None:
    values = part.filter(pl.col("metric") == metric)["value"].to_list()
    return float(values[0]) if values else None


def write_tables(tables: Sequence[Table], target: Path) -> None:
    """Each table as Markdown, CSV and LaTeX. The folder is there with tables or without."""
    target.mkdir(parents=True, exist_ok=True)
    for table in tables:
        write_text(target / f"{table.name}.md", table.markdown())
        write_text(target / f"{table.name}.csv", table.csv())
        write_text(target / f"{table.name}.tex", table.latex())


def write_summary(found: Evidence, target: Path) -> None:
    """F1, EM and Hit@k of every system as one JSON, for ``dvc metrics show``."""
    values: dict[str, Any] = {}
    for name, results in by_system(found.results).items():
        for result in results:
            numbers = summary(result.predictions, result.calls)
            values.setdefault(name, {})[f"seed_{result.seed}"] = numbers["averages"]["macro"]
    write_json(target / "metrics.json", values)


def read_curves(found: Evidence) -> dict[str, list[pl.DataFrame]]:
    """Per-round metrics of every variant and seed."""
    return {
        variant: [
            pl.read_csv(folder / "metrics.csv", infer_schema_length=None) for folder in folders
        ]
        for variant, folders in found.runs.items()
    }


def write_curves(runs: Mapping[str, Sequence[pl.DataFrame]], target: Path) -> None:
    """The curves as one tidy CSV for ``dvc plots show``."""
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
