"""Methods that are not CoSearch: each plays a question to a Trajectory from the core's parts."""
