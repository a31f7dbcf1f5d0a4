"""A finished row as folders that need nothing of this project."""
