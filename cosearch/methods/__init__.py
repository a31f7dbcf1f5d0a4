"""The methods of the tables: each turns a question into a Trajectory with the core's parts."""
