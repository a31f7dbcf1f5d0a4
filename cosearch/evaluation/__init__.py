"""Metrics, intervals, tables, figures and the report."""
