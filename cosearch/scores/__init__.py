"""Scores of predictions, and their averages over the data sets."""
