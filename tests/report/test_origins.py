"""The origin of a row: what its identity files hold, and the command that makes it again."""

import pytest

from cosearch.files.artifacts import Paths, write_json, write_text
from cosearch.report.origins import command_prefix, row_origins
from tests.report.test_glance import evidence


def write_identity(paths, stage, *, gamma=0.5, seed=0, code="1", **settings):
    held = {
        "stage": stage,
        "settings": {"method": {"gamma": gamma}, "row": {"seed": seed}, **settings},
        "models": {"models/tiny/agent": "a" * 64},
        "code": {"cosearch/core/text.py": code},
    }
    write_json(paths.identity(stage), held)


@pytest.fixture
def paths(tmp_path, monkeypatch):
    """A project of two rows; CoSearch is trained, and evaluated at two seeds."""
    monkeypatch.chdir(tmp_path)
    found = Paths("tiny")
    for seed in (0, 1):
        system = {"variant": "cosearch"}
        write_identity(found, f"evaluate@cosearch-{seed}", seed=seed, system=system)
        write_identity(found, f"train@cosearch-{seed}", seed=seed, code=str(seed))
    write_identity(found, "evaluate@oracle-0", gamma=0.8, system={"variant": "base"})
    return found


def test_origins_hold_identities_and_commands(paths, results, rollouts):
    seeds = {(one.system, one.seed) for one in results}
    assert {("cosearch", 0), ("cosearch", 1), ("oracle", 0)} <= seeds
    cosearch, oracle = row_origins(paths, evidence(results, rollouts))
    assert (cosearch.name, oracle.name) == ("cosearch", "oracle")
    assert [one.stage for one in cosearch.stages] == ["evaluate@cosearch-0", "train@cosearch-0"]
    assert cosearch.stages[0].values["method.gamma"] == 0.5
    assert cosearch.commands == (
        "dvc repro evaluate@cosearch-0",
        "dvc repro evaluate@cosearch-1",
    )
    assert cosearch.differences == []
    assert oracle.differences == ["method.gamma: 0.5 → 0.8", "system.variant: cosearch → base"]


def test_other_seeds_say_what_differs(paths, results, rollouts):
    cosearch, _ = row_origins(paths, evidence(results, rollouts))
    assert cosearch.others == {
        "evaluate@cosearch-1": ["row.seed"],
        "train@cosearch-1": ["cosearch/core/text.py", "row.seed"],
    }
    first, second = (stage.fingerprint for stage in cosearch.stages)
    write_identity(paths, "train@cosearch-0", code="other")
    changed, _ = row_origins(paths, evidence(results, rollouts))
    assert (first, second) == (changed.stages[0].fingerprint, second)
    assert changed.stages[1].fingerprint != second


def test_a_row_that_lost_its_identity_has_no_origin(paths, results, rollouts):
    paths.identity("evaluate@oracle-0").unlink()
    (origin,) = row_origins(paths, evidence(results, rollouts))
    assert origin.name == "cosearch"


def test_commands_name_the_pipeline_of_another_profile(paths):
    write_text(paths.root.parents[1] / "profile.yaml", "profile: tiny\n")
    write_text(paths.root.parents[1] / "profiles/mini/profile.yaml", "profile: mini\n")
    assert command_prefix("tiny") == ""
    assert command_prefix("mini") == "profiles/mini/dvc.yaml:"
    assert command_prefix("gone") == ""
