"""params.yaml: one class per block, and the checked whole seen from one profile."""
