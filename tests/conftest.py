"""Settings of every test: drawn examples are the same in every run, and nothing is timed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.evaluation.chromium import Pipe, find_chromium, running
from tests.flows.ui import Prefect, serving_ui

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


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipe]:
    """One Chromium for every test that looks at a page."""
    program = find_chromium()
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("continuous integration needs Chromium; .ci/run installs it")
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    with running(program, tmp_path_factory.mktemp("profile")) as pipe:
        yield pipe


@pytest.fixture(scope="session")
def prefect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prefect]:
    """One server for every test that needs Prefect's."""
    with serving_ui(tmp_path_factory.mktemp("prefect")) as found:
        yield found
