"""The report of a scope: all its tables, figures and a sample of trajectories on one page."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from cosearch.data.corpus import Corpus
from cosearch.evaluation.whole import TRAJECTORIES
from cosearch.files.artifacts import Paths, read_json, write_bytes, write_text
from cosearch.paper.check import check_paper
from cosearch.params.rows import PARTS
from cosearch.report.curves import Curves, adaptive_svg, png, svg
from cosearch.report.episodes import Episodes, read_episodes
from cosearch.report.figures import groups_figure, training_figure, training_rounds
from cosearch.report.glance import glance
from cosearch.report.markup import (
    Content,
    GateVerdict,
    Highlight,
    PanelPicture,
    Picture,
    ReportSection,
    manifest_table,
    render,
    verdict_table,
)
from cosearch.report.origins import row_origins
from cosearch.report.tested import add_tested
from cosearch.statistics.comparisons import compare
from cosearch.statistics.results import Result, row_of
from cosearch.tables.evidence import Evidence, Gates
from cosearch.tables.groups import group_rounds
from cosearch.tables.layout import Column, PrintedRow, Table
from cosearch.tables.panels import PANELS
from cosearch.tables.paper_check import paper_check_table
from cosearch.tables.publish import (
    ablation_tables,
    behaviour_tables,
    oracle_gap_tables,
    read_curves,
    result_tables,
    retriever_table,
    training_tables,
)

FIRST = "figure_2"
"""The curves that stand on the first screen."""
EPISODES = 24
"""Trajectories sampled per run and round; the page's size bounds them further."""
QUESTIONS = 48
"""Test questions sampled, the same for every system; the page's size bounds them further."""
FACING = ("cosearch", "fixed_ranker")
"""The rows that stand side by side at first, where a scope has them."""


def write_report(paths: Paths, found: Evidence, target: Path) -> None:
    """Write report.html (self-contained), report.md and the figures as pictures.

    The page shows measured seconds, which differ from run to run, so dvc.lock names report.md only.
    """
    pictures = []
    for name, title, curves in report_figures(found):
        pictures.append(picture_of(name, title, curves))
        figure = curves.figure()
        write_text(target / f"{name}.svg", svg(figure))
        write_bytes(target / f"{name}.png", png(figure))
    profile = found.scope.profile
    report = Content(
        title=f"CoSearch: results of profile {profile}",
        summary=f"{len(found.results.by_system)} evaluated systems,"
        f" {sum(map(len, found.runs.values()))} training runs.",
        note=found.scope.note("Every number on this page was computed by this pipeline"),
        highlights=list(highlights(found)),
        sections=sections(paths, found, pictures),
        intervals=glance(found),
        origins=row_origins(paths, found),
        episodes=browsed(paths, found),
    )
    pages = render(report)
    write_text(target / "report.html", pages.html)
    write_text(target / "report.md", pages.markdown)


def picture_of(name: str, title: str, curves: Curves) -> Picture:
    """The curves as the page shows them, each panel by itself."""
    panels = [
        PanelPicture(curves.summary(panel), adaptive_svg(figure)) for panel, figure in curves.each()
    ]
    return Picture(name, title, tuple(panels), tuple(curves.runs), curves.note, name == FIRST)


def sections(paths: Paths, found: Evidence, pictures: Sequence[Picture]) -> list[ReportSection]:
    """The sections of the page in order, from results to data."""
    profile = found.scope.profile
    verdicts = list(gate_verdicts(found.gates))
    gates = (verdict_table(verdicts, profile),) if verdicts else ()
    seconds = evaluation_seconds(paths, found.results.evaluated)
    measured = (paths.retrieval / "retrieval.csv").is_file()
    retriever = (retriever_table(paths, found.scope),) if measured else ()
    behaviour = (*retriever, *behaviour_tables(found, seconds))
    training = (*training_tables(found), *training_cost(paths, found))
    manifest = (manifest_table(list(manifest_rows(paths)), profile),)
    return [
        ReportSection("claims", "Claims", tables=tuple(claim_tables(found))),
        ReportSection(
            "results", "Results", tables=(*result_tables(found), *oracle_gap_tables(found))
        ),
        ReportSection("ablations", "Ablations", tables=tuple(ablation_tables(found))),
        ReportSection("behaviour", "Behaviour and cost", tables=behaviour),
        ReportSection("training", "Training", tables=training, pictures=tuple(pictures)),
        ReportSection("gates", "Gates", tables=gates),
        ReportSection(
            "paper", "The paper's own numbers", tables=(paper_check_table(check_paper()),)
        ),
        ReportSection("data", "Data", tables=manifest),
    ]


def claim_tables(found: Evidence) -> list[Table]:
    """What a scope claims, and whether it holds: the first tables below the pictures. No claim is
    declared yet, so this section is left out."""
    return []


def report_figures(found: Evidence) -> Iterator[tuple[str, str, Curves]]:
    """Name, title and figure: Figures 2 and 3 from the rollouts, and the curves of every run."""
    label = found.scope.label
    shown = [name for name in found.tables.training_curves if name in found.runs]
    if shown:
        rounds = {
            label(name): [training_rounds(folder, top_k=found.top_k) for folder in found.runs[name]]
            for name in shown
        }
        figure = training_figure(rounds, top_k=found.top_k, scope=found.scope)
        yield "figure_2", "Training (layout of Figure 2)", figure
    grouped = [name for name in found.tables.groups[:1] if name in found.runs]
    for name in grouped:
        frames = [group_rounds(f / "rollouts", found.groups[name]) for f in found.runs[name]]
        figure = groups_figure(frames, label=label(name), scope=found.scope)
        yield "figure_3", "Rewards and groups (layout of Figure 3)", figure
    curves = read_curves(found)
    held = [p for p in PANELS if any(p.column in f.columns for fs in curves.values() for f in fs)]
    if held:
        figure = Curves(curves, held, found.scope.note(), {})
        yield "curves", "Learning curves of every run", figure


def highlights(found: Evidence) -> Iterator[Highlight]:
    """The first four declared comparisons in F1 of which the scope holds both sides."""
    chosen = [
        one
        for one in found.comparisons
        if one.metric == "f1" and found.results.knows_all(one.left, one.right)
    ]
    for one in chosen[:4]:
        outcome = compare(found.results, one)
        if outcome.interval is not None:
            interval = outcome.interval
            label = f"F1 of {found.scope.label(one.left)} less {found.scope.label(one.right)}"
            bounds = (interval.low, interval.high)
            yield Highlight(label, interval.estimate, interval.verdict, bounds)


def browsed(paths: Paths, found: Evidence) -> Episodes:
    """Trajectories of every training run, and of every system's evaluation at its first seed."""
    runs = {
        f"{found.scope.label(variant)}, seed {row_of(folder)[1]}": folder / "rollouts"
        for variant, folders in found.runs.items()
        for folder in folders
    }
    corpus, rule = Corpus(paths.corpus), found.scope.rule
    trained = read_episodes(runs, corpus, yes_no_rule=rule, limit=EPISODES)
    tested = evaluated_files(paths, found)
    return add_tested(trained, tested, corpus, yes_no_rule=rule, limit=QUESTIONS)


def evaluated_files(paths: Paths, found: Evidence) -> dict[str, Path]:
    """Label -> the whole trajectories of each system at its first seed, those ``FACING`` first."""
    first = {results[0].system: results[0] for results in found.results.by_system.values()}
    order = [*(name for name in FACING if name in first), *first]
    return {
        f"{found.scope.label(name)}, seed {first[name].seed}": folder / TRAJECTORIES
        for name in dict.fromkeys(order)
        for part in PARTS["all"]
        if (folder := paths.evaluate(part, first[name].seed, name)).is_dir()
    }


def evaluation_seconds(paths: Paths, results: Sequence[Result]) -> dict[str, float] | None:
    """System -> seconds per question, for systems with a recorded timing; None without any."""
    seconds = {}
    for result in results:
        path = paths.timing(f"evaluate@{result.system}-{result.seed}")
        if path.is_file():
            seconds[result.system] = read_json(path)["seconds"]["total"] / result.predictions.height
    return seconds or None


def training_cost(paths: Paths, found: Evidence) -> Iterator[Table]:
    """A table of the seconds of every training run by phase, and of the tokens that its policies
    sampled; no table without a run."""
    phases = ("rollout", "score", "update_agent", "update_ranker", "evaluate", "checkpoint")
    rows = []
    for variant, folders in found.runs.items():
        for folder in folders:
            name, seed = row_of(folder)
            path = paths.timing(f"train@{name}-{seed}")
            seconds = read_json(path)["seconds"] if path.is_file() else {}
            cells = (*(seconds.get(phase) for phase in phases), seconds.get("total"))
            label = found.scope.label(variant)
            cells = (*cells, sampled_tokens(folder))
            rows.append(PrintedRow(f"{label}, seed {seed}", cells, systems=(variant,)))
    if rows:
        names = (*(phase.replace("_", " ") for phase in phases), "total")
        columns = [Column(name, 1, clock=True) for name in names]
        yield Table(
            "training_cost",
            "Cost of a training run",
            found.scope.note("Tokens; on the page seconds by phase as well, total with the start"),
            found.scope.profile,
            (*columns, Column("tokens sampled")),
            tuple(rows),
            head="Run",
        )


def sampled_tokens(folder: Path) -> int:
    """Tokens that agent and ranker sampled in all rounds of a run."""
    total = (
        pl.scan_parquet(folder / "rollouts" / "round_*.parquet")
        .select(pl.col("loss_mask").list.sum().cast(pl.Int64).sum())
        .collect()
        .item()
    )
    return int(total or 0)


def gate_verdicts(gates: Gates) -> Iterator[GateVerdict]:
    """One line per ranker and seed that was measured."""
    for (variant, seed), verdict in gates.items():
        measures: Mapping[str, float] | None = verdict["measures"]
        if measures is None:
            continue
        evidence = (
            f"id accuracy {measures['id_accuracy']:.3f} (chance {measures['chance']:.3f}),"
            f" Hit@1 {measures['hit_1']:.3f} (retriever {measures['retriever_hit_1']:.3f}),"
            f" groups without spread {measures['constant_share']:.3f},"
            f" identity {measures['identity_share']:.3f}"
        )
        passed = not verdict["refused"]
        yield GateVerdict(f"{variant} (seed {seed})", "reads content", passed, evidence, variant)


def manifest_rows(paths: Paths) -> Iterator[dict[str, str | int]]:
    """One record for the corpus, each split of a data set, and each file of the Fixed Ranker's
    lists; a file of queries or judgements counts the queries that were sampled."""
    manifest = read_json(paths.data / "manifest.json")
    yield _manifest_row("corpus", manifest["corpus"])
    for name, splits in manifest["sets"].items():
        for split, record in splits.items():
            yield _manifest_row(f"{name}, {split}", record)
    for name, record in manifest["lists"].items():
        collection = record["collection"]
        counted = {collection["source"]: collection} if collection else {}
        for file, sha256 in record["sha256"].items():
            yield _manifest_row(
                f"lists {name}, {file}", {**counted.get(file, record), "sha256": sha256}
            )


def _manifest_row(name: str, record: Mapping[str, Any]) -> dict[str, str | int]:
    return {
        "name": name,
        "source": str(record["source"]),
        "rows": int(record["rows"]),
        "sha256": str(record["sha256"]),
    }
