"""The micro project, reproduced once for all tests that only look."""

import pytest

from tests.pipeline.project import Project


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose core rows were reproduced by DVC, in a folder with a blank in its name. Tests
    leave it as they found it."""
    project = Project.make(tmp_path_factory.mktemp("re produced"))
    project.command("dvc", "repro", "report@core_1")
    return project
