"""Results of all evaluated systems, bootstrap intervals of their differences, rounding ranges."""
