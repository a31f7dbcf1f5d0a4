"""What ``python -m cosearch show`` advises where no tables are."""

from pathlib import Path

import pytest

from cosearch.__main__ import main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("profile", "scope", "words"),
    [
        ("tiny", "core_3", "run `dvc repro report@core_3`"),
        ("mini", "all_1", "run `dvc repro profiles/mini/dvc.yaml:report@all_1`"),
        ("tiny", "core_2", "no 'core_2'; did you mean 'core_"),
        ("absent", "core_1", "no 'absent'; there are mini, paper, tiny"),
    ],
)
def test_a_scope_without_tables_leads_to_the_command_that_makes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str, scope: str, words: str
) -> None:
    for name in ("params.yaml", "plan.yaml", "hub.yaml", "profile.yaml", "profiles"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=words):
        main(["show", "--profile", profile, "--scope", scope])
