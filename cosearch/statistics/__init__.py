"""Results of many rows: paired bootstrap intervals, comparisons, rounding."""
