"""The report: figures, curves, trajectories to look into, on one page."""
