"""Predicts what a profile will need before it runs: tokens, memory, hours and cost."""
