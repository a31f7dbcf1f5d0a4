"""Evaluation of systems, of the retriever, and the gate that a trained ranker has to pass."""
