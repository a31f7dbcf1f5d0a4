"""Learning curves (Figures 2 and 3): one panel per quantity, one colour per trained variant.

Equal rows give equal bytes: a picture holds no date and no random ids, its fonts come with
matplotlib, and no window is opened.
"""

import io
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import matplotlib
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cosearch.tables.panels import Panel

_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "cosearch",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
}
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
"""The Okabe-Ito colours, which colour-blind readers can tell apart."""
_ACROSS = 2


def learning_curves(
    runs: Mapping[str, Sequence[pl.DataFrame]],
    panels: Sequence[Panel],
    *,
    note: str,
    published: Mapping[str, pl.DataFrame],
) -> Figure:
    """A figure of small multiples over the column ``round``.

    ``runs``: label -> the per-round rows of each seed; a thin line is a seed, the thick one their
    mean. Rows where a column is null (not measured in that round) are left out. ``published``:
    label -> the paper's curves, dashed in the colour of the run of that label. Raises ValueError
    for no panel, or a column that no run has.
    """
    if not panels:
        raise ValueError("a figure without a panel")
    for panel in panels:
        if not any(panel.column in rows.columns for seeds in runs.values() for rows in seeds):
            raise ValueError(f"no run has the column {panel.column!r}")
    down = ceil(len(panels) / _ACROSS)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, 2.5 * down + 0.5), layout="constrained")
        grid = figure.subplots(down, _ACROSS, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            _draw(axes, panel, runs)
            _draw_published(axes, panel, published, list(runs))
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_axis_off()
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
        figure.supxlabel(note, fontsize=7, color="#555555")
    return figure


def _draw(axes: Axes, panel: Panel, runs: Mapping[str, Sequence[pl.DataFrame]]) -> None:
    for number, (label, seeds) in enumerate(runs.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        measured = [
            rows.select("round", pl.col(panel.column).cast(pl.Float64)).drop_nulls().sort("round")
            for rows in seeds
            if panel.column in rows.columns
        ]
        if len(measured) > 1:
            for rows in measured:
                axes.plot(rows["round"], rows[panel.column], color=colour, lw=0.6, alpha=0.5)
        mean = _mean(measured, panel.column)
        marker = "o" if mean.height == 1 else None
        axes.plot(
            mean["round"], mean[panel.column], color=colour, lw=1.6, label=label, marker=marker
        )
    axes.set_title(panel.label, loc="left")
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_published(
    axes: Axes, panel: Panel, published: Mapping[str, pl.DataFrame], labels: Sequence[str]
) -> None:
    for label, rows in published.items():
        if panel.column not in rows.columns:
            continue
        points = rows.select("round", panel.column).drop_nulls()
        colour = _COLOURS[labels.index(label) % len(_COLOURS)] if label in labels else "#999999"
        axes.plot(
            points["round"], points[panel.column], color=colour, lw=1.0, ls="--",
            label=f"paper: {label}",
        )  # fmt: skip


def _mean(measured: Sequence[pl.DataFrame], column: str) -> pl.DataFrame:
    """Mean over seeds in the rounds that every seed measured."""
    if not measured:
        return pl.DataFrame(schema={"round": pl.Int64, column: pl.Float64})
    return (
        pl.concat(measured)
        .group_by("round", maintain_order=True)
        .agg(pl.col(column).mean(), pl.len().alias("seeds"))
        .filter(pl.col("seeds") == len(measured))
        .select("round", column)
        .sort("round")
    )


def svg(figure: Figure) -> str:
    """The figure as SVG text."""
    return _saved(figure, "svg", {"Date": None, "Creator": None}).decode("utf-8")


def png(figure: Figure) -> bytes:
    """The figure as PNG, 150 dots per inch."""
    return _saved(figure, "png", {"Software": None})


def _saved(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    out = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(out, format=kind, metadata=metadata, dpi=150)
    return out.getvalue()
