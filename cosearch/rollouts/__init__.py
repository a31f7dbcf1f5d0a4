"""Rollouts: policies and pipelines made from the parameters, and trajectories played in shards that
survive a kill."""
