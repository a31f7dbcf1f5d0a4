"""One run of one stage: its identity, its lease, its progress, and who watches it."""
