"""Prepares the data before training: questions, passages, the corpus, its vectors and its index."""
