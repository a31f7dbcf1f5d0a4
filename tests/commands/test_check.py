"""``python -m cosearch check``: what it finds before any work starts."""

from pathlib import Path

import pytest

from cosearch.__main__ import main
from tests.settings import ROOT


@pytest.fixture
def with_models(project: Path) -> Path:
    """The project with the shipped models."""
    (project / "models").symlink_to(ROOT / "models")
    return project


def told(*words: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(words)
    message = str(caught.value)
    assert message.startswith("error: ") and "\n" not in message
    return message


def test_models_that_are_not_there_are_named_with_the_fix(
    with_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check"])
    said = capsys.readouterr().out
    assert "every key, value and reference is good" in said
    if not (ROOT / "models/paper/large").exists():
        assert "profile paper cannot run yet: no model in models/paper/" in said
        assert "make paper-data" in told("check", "--profile", "paper")
    main(["add-row", "mine", "--like", "start", "models.agent=models/tiny/agnt"])
    message = told("check")
    assert "no model in models/tiny/agnt (rows.mine.set.models.agent)" in message
    assert "correct the path" in message


def test_a_model_without_a_record_is_named(project: Path) -> None:
    for model in (ROOT / "models/tiny").iterdir():
        place = project / "models/tiny" / model.name
        place.mkdir(parents=True)
        (place / "config.json").write_text("{}")
    message = told("check")
    assert "no record of models/tiny/agent, " in message
    assert message.endswith("run: python -m cosearch models --profile tiny")


def test_rows_of_before_an_edit_are_named(with_models: Path) -> None:
    text = (with_models / "rows.yaml").read_text("utf-8")
    (with_models / "rows.yaml").write_text(text.replace("seed: 4", "seed: 3"))
    assert "rows.yaml: the rows of params.yaml have changed since" in told("check")
