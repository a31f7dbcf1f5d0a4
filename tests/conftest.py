"""Settings of every test: drawn examples are the same in every run, and nothing is timed."""

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")
