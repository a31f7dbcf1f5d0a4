"""Learning curves (Figures 2 and 3): one panel per quantity, one colour per trained variant.

Equal rows give equal bytes: a picture holds no date and no random ids, its fonts come with
matplotlib, and no window is opened. A picture of the page takes its colours from palette.css, which
has them for a light and for a dark screen.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import ceil
from textwrap import fill
from typing import Any

import matplotlib
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cosearch.tables.panels import Panel

PALETTE = (files("cosearch.report") / "page" / "palette.css").read_text("utf-8")
"""The colours of the page and of its pictures, by name."""
_LIGHT: Mapping[str, str] = dict(re.findall(r"--(\w+): (#\w{6})", PALETTE.partition("@media")[0]))
_COLOURS = [colour for name, colour in _LIGHT.items() if re.fullmatch(r"c\d", name)]
"""Okabe and Ito's colours, which colour-blind readers can tell apart."""
_DASHES = ("-", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
"""What tells runs of one colour apart. Broken lines are the paper's."""
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "cosearch",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": _LIGHT["line"],
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), _LIGHT["ink"]),
    **dict.fromkeys(("xtick.color", "ytick.color"), _LIGHT["ink"]),
}
_ACROSS = 2
_PANEL_INCHES = (3.6, 2.5)
_TITLE_SIGNS = 36
"""The longest line of a panel's title."""

Runs = Mapping[str, Sequence[pl.DataFrame]]
"""Label -> the per-round rows of each seed."""


@dataclass(frozen=True)
class Curves:
    """Small multiples over the column ``round``.

    A thin line is a seed, the thick one their mean. Rows where a column is null (not measured in
    that round) are left out. ``published``: label -> the paper's curves, dashed in the colour of
    the run of that label. Raises ValueError for no panel, or a column that no run has.
    """

    runs: Runs
    panels: Sequence[Panel]
    note: str
    published: Mapping[str, pl.DataFrame]

    def __post_init__(self) -> None:
        if not self.panels:
            raise ValueError("a figure without a panel")
        for panel in self.panels:
            if not any(
                panel.column in rows.columns for seeds in self.runs.values() for rows in seeds
            ):
                raise ValueError(f"no run has the column {panel.column!r}")

    def figure(self) -> Figure:
        """All panels in one figure, with a legend and the note."""
        down = ceil(len(self.panels) / _ACROSS)
        with matplotlib.rc_context(_STYLE):
            figure = Figure(figsize=(7.2, 2.5 * down + 0.5), layout="constrained")
            grid = figure.subplots(down, _ACROSS, squeeze=False)
            for axes, panel in zip(grid.flat, self.panels, strict=False):
                self._draw(axes, panel)
            for axes in list(grid.flat)[len(self.panels) :]:
                axes.set_axis_off()
            handles, labels = grid.flat[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
            figure.supxlabel(self.note, fontsize=7, color=_LIGHT["soft"])
        return figure

    def each(self) -> Iterator[tuple[Panel, Figure]]:
        """Every panel as a figure of its own, as wide as a narrow screen."""
        for panel in self.panels:
            with matplotlib.rc_context(_STYLE):
                figure = Figure(figsize=_PANEL_INCHES, layout="constrained")
                self._draw(figure.subplots(), panel)
            yield panel, figure

    def summary(self, panel: Panel) -> str:
        """The panel in words: the first and the last value of every run's mean."""
        ends = []
        for label, seeds in self.runs.items():
            mean = _mean(_measured(seeds, panel.column), panel.column)[panel.column]
            ends += [f"{label} from {mean[0]:.3f} to {mean[-1]:.3f}"] if len(mean) else []
        return f"{panel.label} over the rounds: {'; '.join(ends)}"

    def _draw(self, axes: Axes, panel: Panel) -> None:
        _draw(axes, panel, self.runs)
        _draw_published(axes, panel, self.published, list(self.runs))


def _draw(axes: Axes, panel: Panel, runs: Runs) -> None:
    for number, (label, seeds) in enumerate(runs.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        dashes = _DASHES[number // len(_COLOURS) % len(_DASHES)]
        measured = _measured(seeds, panel.column)
        if len(measured) > 1:
            for rows in measured:
                axes.plot(rows["round"], rows[panel.column], color=colour, lw=0.6, alpha=0.5)
        mean = _mean(measured, panel.column)
        marker = "o" if mean.height == 1 else None
        axes.plot(
            mean["round"], mean[panel.column], color=colour, ls=dashes, lw=1.6, label=label,
            marker=marker,
        )  # fmt: skip
    axes.set_title(fill(panel.label, _TITLE_SIGNS), loc="left")
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_published(
    axes: Axes, panel: Panel, published: Mapping[str, pl.DataFrame], labels: Sequence[str]
) -> None:
    for label, rows in published.items():
        if panel.column not in rows.columns:
            continue
        points = rows.select("round", panel.column).drop_nulls()
        colour = (
            _COLOURS[labels.index(label) % len(_COLOURS)] if label in labels else _LIGHT["soft"]
        )
        axes.plot(
            points["round"], points[panel.column], color=colour, lw=1.0, ls="--",
            label=f"paper: {label}",
        )  # fmt: skip


def _measured(seeds: Sequence[pl.DataFrame], column: str) -> list[pl.DataFrame]:
    """The rounds of each seed in which the column was measured."""
    return [
        rows.select("round", pl.col(column).cast(pl.Float64)).drop_nulls().sort("round")
        for rows in seeds
        if column in rows.columns
    ]


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


def adaptive_svg(figure: Figure) -> str:
    """The figure as SVG text without a background, in the colours of the reader's screen."""
    figure.set_facecolor("none")
    for axes in figure.axes:
        axes.set_facecolor("none")
    text = svg(figure)
    for name, colour in _LIGHT.items():
        text = text.replace(colour, f"var(--{name})")
    return text.replace("<defs>", f"<style>{PALETTE}</style>\n <defs>", 1)


def png(figure: Figure) -> bytes:
    """The figure as PNG, 150 dots per inch."""
    return _saved(figure, "png", {"Software": None})


def _saved(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    out = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(out, format=kind, metadata=metadata, dpi=150)
    return out.getvalue()
