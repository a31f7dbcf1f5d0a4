"""The small commands of ``python -m cosearch`` beside the graph."""
