"""Prefect's view of the graph."""
