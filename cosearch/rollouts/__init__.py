"""Playing trajectories: policies and pipelines from parameters, shard by shard, resumable."""
