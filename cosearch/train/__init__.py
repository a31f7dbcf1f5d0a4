"""Learning: the joint loop, the loss, and the state that survives a kill."""
