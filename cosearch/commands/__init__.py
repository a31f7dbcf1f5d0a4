"""The commands of ``python -m cosearch``. None of them is a stage of the graph."""
