"""Trains the base models of the generated world from scratch."""
