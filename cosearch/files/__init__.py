"""Paths of all outputs, and functions that write, hash and check files."""
