"""Judges of a ranking: a service that is asked, or a model whose likelihoods are read."""
