"""Settings of every test: drawn examples are the same in every run, and nothing is timed."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")

TESTS = Path(__file__).parent
TOGETHER = ("pipeline", "faults")
"""Folders whose files share what is costly to make."""


@pytest.hookimpl(tryfirst=True)  # the scheduler reads the groups right after
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker have all tests that share something: a folder's, or else a file's."""
    for item in items:
        place = item.path.relative_to(TESTS)
        group = place.parts[0] if place.parts[0] in TOGETHER else place.as_posix()
        item.add_marker(pytest.mark.xdist_group(group))
