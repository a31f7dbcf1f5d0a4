"""The report page of a scope: tables, figures and a browser of trajectories."""
