"""Samplers and trainers of the two policies, on one process or many."""
