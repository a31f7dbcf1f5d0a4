"""What a profile will take, said before it runs: tokens, memory, hours and cost."""
