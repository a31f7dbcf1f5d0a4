"""The quantities of the learning curves, and the column of the per-round metrics for each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Panel:
    """A column of the per-round metrics and its name for a reader."""

    column: str
    label: str


PANELS = (
    Panel("dev_f1", "development F1"),
    Panel("dev_hit_1", "development Hit@1 given an answer in D_N"),
    Panel("r_main", "mean agent reward"),
    Panel("searches", "searches per trajectory"),
    Panel("ranker_well_formed", "well-formed rankings"),
    Panel("agent_entropy", "agent entropy (nats per token)"),
)
"""The panels of the figure with the curves of every run, and the columns of curves.csv."""
