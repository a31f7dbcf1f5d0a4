"""Training: the joint loop, the Fixed Ranker's single-turn loop, and what a round records."""
