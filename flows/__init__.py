"""What drives the graph from outside: DVC's own stages, run side by side."""
