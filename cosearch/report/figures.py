"""Figures 2 and 3, from the rollouts of every training round.

The paper names its Figure 2b Hit@5, but the curve is the relevance reward of Figure 3b, and its
Figure 2c counts messages of the transcript, 2 x searches + 2. Here Hit@K, the relevance reward and
the number of searches have a panel each. Under profile ``paper`` the published curves are drawn
over the quantity that they really show.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from cosearch.paper.published import OURS, figure_curve
from cosearch.report.curves import Curves
from cosearch.statistics.scope import Scope
from cosearch.tables.groups import AFTER, BEFORE, round_files, round_number
from cosearch.tables.panels import Panel

TRAINING_SCHEMA = pl.Schema(
    {
        "round": pl.Int64,  # from 1
        "dev_f1": pl.Float64,
        "hit": pl.Float64,
        "r_rel": pl.Float64,
        "searches": pl.Float64,
    }
)

_GROUP_PANELS = (
    Panel("r_main", "answer reward"),
    Panel("r_rel", "relevance reward"),
    Panel("r_rank", "composite reward"),
    Panel("size", "calls per group"),
)

_PAPER_FIGURE_2: Mapping[str, tuple[str, Callable[[float], float]]] = {
    "dev_f1": ("fig2a_val_f1_avg7", float),
    "r_rel": ("fig2b_hit5", float),
    "searches": ("fig2c_turns", lambda messages: (messages - 2) / 2),
}
_PAPER_FIGURE_3 = {
    "r_main": "fig3a_main_reward",
    "r_rel": "fig3b_relevance_reward",
    "r_rank": "fig3c_composite_reward",
    "size": "fig3d_group_size",
}


def training_rounds(folder: Path, *, top_k: int) -> pl.DataFrame:
    """One row per round of a trained variant (``TRAINING_SCHEMA``); round 0 is before training.

    ``folder`` holds metrics.csv (``dev_f1``, empty in rounds without a development run) and
    rollouts/. ``hit``: the share of search calls with an answer in the first ``top_k`` of the
    ranker's output, calls without any answer in D_N included, as ``r_rel`` (Eq. 5) has them.
    """
    rows = [_round(path, top_k) for path in round_files(folder / "rollouts")]
    metrics = pl.read_csv(folder / "metrics.csv", infer_schema_length=None)
    if "dev_f1" not in metrics.columns:
        metrics = metrics.with_columns(dev_f1=pl.lit(None))
    dev = metrics.select(pl.col("round").cast(pl.Int64), pl.col("dev_f1").cast(pl.Float64))
    return (
        pl.DataFrame(rows, schema={name: TRAINING_SCHEMA[name] for name in rows[0]})
        .join(dev, on="round", how="full", coalesce=True)
        .select(list(TRAINING_SCHEMA))
        .sort("round")
    )


def _round(path: Path, top_k: int) -> dict[str, float | None]:
    frame = pl.scan_parquet(path)
    calls = frame.filter(pl.col("kind") == "call").select(
        "r_rel",
        pl.col("candidates")
        .list.eval(pl.element().struct.field("relevant"))
        .list.gather(pl.col("ranking").list.head(top_k))
        .list.any()
        .alias("hit"),
    )
    means = calls.select(pl.col("hit").cast(pl.Float64).mean(), pl.col("r_rel").mean(), pl.len())
    hit, r_rel, made = means.collect().row(0)
    played = frame.filter(pl.col("kind") == "trajectory").select(pl.len()).collect().item()
    return {"round": round_number(path), "hit": hit, "r_rel": r_rel, "searches": made / played}


def training_figure(
    runs: Mapping[str, Sequence[pl.DataFrame]], *, top_k: int, scope: Scope
) -> Curves:
    """Figure 2: one line per variant.

    ``runs``: label of a variant -> ``training_rounds`` of each seed.
    """
    panels = (
        Panel("dev_f1", "development F1"),
        Panel("hit", f"Hit@{top_k} of all calls"),
        Panel("r_rel", "relevance reward of all calls"),
        Panel("searches", "searches per trajectory"),
    )
    published = {}
    if scope.comparable:
        curves = {label: _paper_training(label) for label in runs}
        published = {label: curve for label, curve in curves.items() if curve.height}
    sources = [f"Training rollouts and development questions; K = {top_k}"]
    if published:
        sources.append("Dashed: the paper, its Figure 2b as relevance reward, 2c as searches")
    note = scope.note(*sources)
    return Curves(runs, panels, note, published)


def groups_figure(runs: Sequence[pl.DataFrame], *, label: str, scope: Scope) -> Curves:
    """Figure 3 of one variant: ``runs`` is ``groups.group_rounds`` of each seed.

    The paper's curves are of CoSearch with the large agent, so they are drawn over the variant of
    that label only.
    """
    phases = {
        phase: [frame.filter(pl.col("phase") == phase) for frame in runs]
        for phase in (BEFORE, AFTER)
    }
    published = {}
    if scope.comparable and label == OURS:
        published = {
            phase: _frame({of: figure_curve(name, phase) for of, name in _PAPER_FIGURE_3.items()})
            for phase in phases
        }
    note = scope.note(f"{label}: groups of ranker calls before and after the k_min filter")
    return Curves(phases, _GROUP_PANELS, note, published)


def _paper_training(label: str) -> pl.DataFrame:
    return _frame(
        {
            column: {step: convert(value) for step, value in figure_curve(name, label).items()}
            for column, (name, convert) in _PAPER_FIGURE_2.items()
        }
    )


def _frame(curves: Mapping[str, Mapping[int, float]]) -> pl.DataFrame:
    """Columns over the union of their steps; null where a curve has no point."""
    steps = sorted({step for curve in curves.values() for step in curve})
    columns = {name: [curve.get(step) for step in steps] for name, curve in curves.items()}
    schema = {"round": pl.Int64(), **dict.fromkeys(curves, pl.Float64())}
    return pl.DataFrame({"round": steps, **columns}, schema=schema)
