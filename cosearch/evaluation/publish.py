"""From evaluated systems to files: the tables of a scope, its learning curves, its report.

A scope is one seed (``seed_0``) or all of them (``all_seeds``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from cosearch import schema
from cosearch.artifacts import Paths, read_json, write_bytes, write_json, write_text
from cosearch.config import Settings
from cosearch.evaluation import comparisons as compare
from cosearch.evaluation.behaviour import cost_table, retrieval_table, searches_table
from cosearch.evaluation.curves import Panel, learning_curves, png, svg
from cosearch.evaluation.layout import Column, Row, Table
from cosearch.evaluation.metrics import summary
from cosearch.evaluation.report import (
    Picture,
    Section,
    Verdict,
    manifest_table,
    render,
    verdict_table,
)
from cosearch.evaluation.results import Result, Scope, by_system, read_results
from cosearch.evaluation.tables import comparison_table, main_table, oracle_table

SCOPES: Mapping[str, int | None] = {"seed_0": 0, "all_seeds": None}
"""Scope -> its seed, or None for all of them."""

PANELS = (
    Panel("dev_f1", "development F1"),
    Panel("dev_hit_1", "development Hit@1 given an answer in D_N"),
    Panel("r_main", "mean agent reward"),
    Panel("searches", "searches per trajectory"),
    Panel("ranker_well_formed", "well-formed rankings"),
    Panel("agent_entropy", "agent entropy (nats per token)"),
)


@dataclass(frozen=True)
class Evidence:
    """Everything the tables of one scope are made of."""

    scope: Scope
    results: Sequence[Result]
    withheld: Mapping[str, str]
    statistics: compare.Statistics
    comparisons: Sequence[compare.Comparison]
    gates: Mapping[str, Mapping[str, Any]]


def gather(settings: Settings, paths: Paths, seed: int | None) -> Evidence:
    """Results of a seed (None: of all), with the rows that the gate withholds."""
    data, method = settings.section(schema.Data), settings.method()
    settings.asked.update(("systems", "comparisons", "statistics"))
    file = settings.file
    results = read_results(paths.evaluations(seed))
    gates = {
        path.parent.name: read_json(path)
        for path in sorted(paths.gate(0).parent.glob(f"{seed_glob(seed)}/gate.json"))
    }
    scope = Scope(
        profile=settings.profile,
        rule=method.reward.yes_no_rule,
        average="macro",
        kinds={name: row.kind for name, row in data.sets.items()},
        labels={name: system.label for name, system in file.systems.items()},
    )
    return Evidence(
        scope,
        results,
        withheld_rows(file.systems, gates),
        compare.Statistics(**file.statistics.model_dump()),
        [compare.Comparison(**one.model_dump()) for one in file.comparisons],
        gates,
    )


def seed_glob(seed: int | None) -> str:
    """Folders of a seed, or of all."""
    return "seed_*" if seed is None else f"seed_{seed}"


def withheld_rows(
    systems: Mapping[str, schema.System], gates: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """System -> reason, for rows whose trained ranker some gate refused."""
    return {
        name: f"its ranker failed the gate ({seed})"
        for seed, verdicts in gates.items()
        for name, system in systems.items()
        if system.ranker == "generative"
        and system.variant in verdicts
        and verdicts[system.variant]["trained"]
        and verdicts[system.variant]["refused"]
    }


def result_tables(found: Evidence) -> list[Table]:
    """Main table (Table 2) and the declared comparisons."""
    return [
        main_table(found.results, scope=found.scope, withheld=found.withheld),
        comparison_table(
            found.results,
            found.comparisons,
            scope=found.scope,
            statistics=found.statistics,
            withheld=found.withheld,
        ),
    ]


def oracle_gap_table(found: Evidence) -> Table:
    """Standard against oracle retrieval (Table 1)."""
    return oracle_table(
        found.results, scope=found.scope, statistics=found.statistics, withheld=found.withheld
    )


def behaviour_tables(found: Evidence, seconds: Mapping[str, float] | None = None) -> list[Table]:
    """What the agent was shown, its searches (Table 7), and cost."""
    scope, withheld = found.scope, found.withheld
    return [
        retrieval_table(found.results, scope=scope, withheld=withheld),
        searches_table(found.results, scope=scope, withheld=withheld),
        cost_table(found.results, scope=scope, withheld=withheld, seconds=seconds),
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
    """Each table as Markdown, CSV and LaTeX."""
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


def read_curves(paths: Paths, seed: int | None) -> dict[str, list[pl.DataFrame]]:
    """Per-round metrics of every variant and seed."""
    runs: dict[str, list[pl.DataFrame]] = {}
    for path in sorted(paths.train("*", 0).parent.parent.glob(f"{seed_glob(seed)}/*/metrics.csv")):
        frame = pl.read_csv(path, infer_schema_length=None)
        if frame.height > 1:
            runs.setdefault(path.parent.name, []).append(frame)
    return runs


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


def write_report(
    settings: Settings, paths: Paths, found: Evidence, seed: int | None, target: Path
) -> None:
    """report.html (self-contained), report.md and the curves as pictures."""
    pictures = []
    if runs := read_curves(paths, seed):
        held = [p for p in PANELS if any(p.column in f.columns for fs in runs.values() for f in fs)]
        figure = learning_curves(runs, held, note=found.scope.note())
        pictures.append(Picture("curves", "Learning curves", svg(figure)))
        write_text(target / "curves.svg", pictures[0].svg)
        write_bytes(target / "curves.png", png(figure))
    behaviour = behaviour_tables(found, evaluation_seconds(paths, found.results))
    verdicts, manifest = list(gate_verdicts(found.gates)), list(manifest_rows(paths))
    profile = settings.profile
    pages = render(
        title=f"CoSearch: results of profile {profile}",
        summary=f"{len(by_system(found.results))} systems, {len(runs)} trained variants.",
        note=found.scope.note("Every number on this page was computed by this pipeline"),
        highlights=[],
        sections=[
            Section("results", "Results", tables=(*result_tables(found), oracle_gap_table(found))),
            Section(
                "behaviour",
                "Behaviour and cost",
                tables=(retriever_table(paths, found.scope), *behaviour),
            ),
            Section("curves", "Learning curves", pictures=tuple(pictures)),
            Section(
                "gates", "Gates", tables=(verdict_table(verdicts, profile),) if verdicts else ()
            ),
            Section("data", "Data", tables=(manifest_table(manifest, profile),)),
        ],
    )
    write_text(target / "report.html", pages.html)
    write_text(target / "report.md", pages.markdown)


def evaluation_seconds(paths: Paths, results: Sequence[Result]) -> dict[str, float] | None:
    """Seconds per question of every system whose timing is at hand; None without any."""
    seconds = {}
    for result in results:
        path = paths.timing(f"evaluate@{result.system}-{result.seed}")
        if path.is_file():
            seconds[result.system] = read_json(path)["seconds"]["total"] / result.predictions.height
    return seconds or None


def gate_verdicts(gates: Mapping[str, Mapping[str, Any]]) -> Iterator[Verdict]:
    """One line per ranker and seed."""
    for seed, verdicts in gates.items():
        for name, verdict in verdicts.items():
            measures = verdict["measures"]
            evidence = (
                f"id accuracy {measures['id_accuracy']:.3f} (chance {measures['chance']:.3f}),"
                f" Hit@1 {measures['hit_1']:.3f} (retriever {measures['retriever_hit_1']:.3f}),"
                f" groups without spread {measures['constant_share']:.3f},"
                f" identity {measures['identity_share']:.3f}"
            )
            refused = verdict["refused"]
            yield Verdict(f"{name} ({seed})", "reads content", not refused, evidence)


def manifest_rows(paths: Paths) -> Iterator[dict[str, str | int]]:
    """One record per data set and the corpus."""
    manifest = read_json(paths.data / "manifest.json")
    corpus = manifest["corpus"]
    yield {
        "name": "corpus",
        "source": str(corpus["source"]),
        "rows": int(corpus["rows"]),
        "sha256": str(corpus["sha256"]),
    }
    for name, splits in manifest["sets"].items():
        for split, record in splits.items():
            yield {
                "name": f"{name}, {split}",
                "source": str(record["source"]),
                "rows": int(record["rows"]),
                "sha256": str(record["sha256"]),
            }
