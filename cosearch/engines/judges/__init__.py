"""Judges of a ranking: an endpoint that is asked, or a model whose likelihoods are read."""
