"""The undisturbed project of the campaign, made once. Tests leave it as they found it."""

import pytest

from tests.faults.lab import Lab, make_lab


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A project that ran to its end and was never disturbed."""
    lab = make_lab(tmp_path_factory.mktemp("calm") / "project")
    row = ("--row", "cosearch-0")
    first = (["identity"], ["data"], ["encode"], ["index"])
    for stage, *words in (*first, ["train", *row], ["evaluate", *row]):
        ended = lab.stage(stage, *words)
        assert ended.code == 0, ended.said
    return lab
