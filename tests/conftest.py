"""Settings of every test: drawn examples are the same in every run, and nothing is timed."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.chromium import Pipe, find_chromium, running
from tests.flows.ui import Prefect, serving_ui

pytest_plugins = ("tests.evaluated", "tests.rounds")

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")

TOGETHER = ("tests/pipeline", "tests/faults")
"""Folders whose files share what is costly to make."""


class Together(LoadScopeScheduling):
    """Lets one worker have all tests that share something: a folder's, or else a file's."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.rpartition("/")[0]
        return folder if folder in TOGETHER else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    """How tests are dealt to several workers."""
    return Together(config, log)


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
