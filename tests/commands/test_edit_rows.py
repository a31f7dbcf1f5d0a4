"""Rows that are added to params.yaml and removed from it, by the commands themselves."""

from pathlib import Path

import pytest
import yaml
from dvc.utils.serialize import modify_yaml

from cosearch.__main__ import main
from cosearch.files.artifacts import Paths
from cosearch.params.editing import add_entry, read_value, remove_entry
from cosearch.params.rows_file import profile_folders, rows_text
from cosearch.params.settings import load_settings
from cosearch.run.lease import Lease

NEW = ["add-row", "no_gate", "--like", "cosearch", "reward.gamma=0"]


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by path."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def refused(*words: str) -> str:
    """The line with which a command ends that changes nothing."""
    before = files(Path())
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert files(Path()) == before
    message = str(caught.value)
    assert message.startswith("error: ") and "\n" not in message
    return message


def test_an_added_row_is_an_entry_and_nothing_else_changes(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(project)
    main([*NEW, "train.agent_lr=1e-5", "--label", "w/o gate", "--tables", "ablations,groups"])
    assert "next: make row ROW=no_gate, or" in capsys.readouterr().out
    settings = load_settings("tiny")
    row = settings.rows["no_gate"]
    assert row.set == {"reward.gamma": 0, "train.agent_lr": 1e-5} and row.part == "more"
    assert row.tables == {"ablations": "w/o gate", "groups": "w/o gate"}
    lines = (project / "params.yaml").read_text("utf-8").splitlines()
    old = before["params.yaml"].decode().splitlines()
    at = lines.index("  no_gate:")
    assert lines[at + 3] == "    set: {reward.gamma: 0, train.agent_lr: 1.0e-5}"
    assert [*lines[:at], *lines[at + 5 :]] == old
    for profile, folder in profile_folders().items():
        assert (folder / "rows.yaml").read_text("utf-8") == rows_text(load_settings(profile))
    main(["remove-row", "no_gate", "--yes"])
    assert files(project) == before


def test_dvc_writes_an_edited_file_as_it_is(project: Path) -> None:
    main([*NEW, "reward.hit_cutoffs=[1, 2]", "loss.dual_clip=null", "--part", "core"])
    text = (project / "params.yaml").read_text("utf-8")
    with modify_yaml("params.yaml"):
        pass
    assert (project / "params.yaml").read_text("utf-8") == text
    assert load_settings("tiny").rows["no_gate"].label.startswith("CoSearch, reward.gamma=0, ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["cosearch", "--like", "start", "a=1"], ["rows.cosearch", "taken"]),
        (["No gate", "--like", "start", "a=1"], ["rows.No gate", "lower case letters"]),
        (["base", "--like", "start", "a=1"], ["rows.base", "is not 'base'"]),
        (["x", "--like", "cosaerch", "a=1"], ["rows.x.like", "did you mean 'cosearch'"]),
        (["x", "--like", "start", "reward.gama=1"], ["rows.x.set", "did you mean 'reward.gamma'"]),
        (["x", "--like", "start", "reward.gamma=-1"], ["rows.x.set", "gamma", "greater than"]),
        (["x", "--like", "start", "reward.gamma"], ["rows.x.set", "no KEY=VALUE"]),
        (
            ["x", "--like", "start", "train.rounds=["],
            ["rows.x.set: train.rounds: '[' is no"],
        ),
        (
            ["x", "--like", "start", "reward.gamma=1", "--tables", "walks"],
            ["rows.x.tables", "no table"],
        ),
        (["x", "--like", "direct", "rollout.top_k=9"], ["rows.x.set, profile tiny", "top_k=9"]),
    ],
)
def test_a_row_that_cannot_be_is_refused_before_anything_is_written(
    project: Path, words: list[str], told: list[str]
) -> None:
    message = refused("add-row", *words)
    assert not [one for one in told if one not in message]


def test_a_row_that_others_name_is_kept(project: Path) -> None:
    told = refused("remove-row", "retrieval_only", "--yes")
    named = ["rows.oracle.models_of", "comparisons.4.right", "tables.oracle.large.standard"]
    assert not [place for place in named if place not in told]
    assert "did you mean 'wo_main'" in refused("remove-row", "wo_mian", "--yes")


def test_a_row_that_runs_is_kept(project: Path) -> None:
    main(NEW)
    place = Paths("mini").run("evaluate@no_gate-3", "lease").parent
    with Lease(place):
        assert "mini/evaluate@no_gate-3 runs now" in refused("remove-row", "no_gate", "--yes")


def test_what_would_go_is_listed_and_stays_without_a_yes(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(NEW)
    paths = Paths("tiny")
    place = paths.evaluate("more", 2, "no_gate") / "metrics.json"
    other = paths.evaluate("more", 2, "no_gate_too") / "metrics.json"
    state = paths.run("train@no_gate-0", "0123") / "identity.json"
    for path in (place, other, state):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    for answer in ("n", ""):
        monkeypatch.setattr("builtins.input", lambda prompt, answer=answer: answer)
        assert "nothing was removed" in refused("remove-row", "no_gate")
    told = capsys.readouterr().out
    assert f"{place.parent}/\n" in told and f"{state.parent.parent}/\n" in told
    assert "rows.no_gate, lines" in told and "dvc gc" in told and str(other) not in told
    monkeypatch.setattr("builtins.input", lambda prompt: "y")
    main(["remove-row", "no_gate"])
    assert other.is_file() and not place.parent.exists() and not state.parent.parent.exists()


def test_entries_come_and_go_as_text() -> None:
    text = "a:\n  one:\n    - 1  # kept with it\n  # of two\n  two: |\n    x\n    y\nb: {}  # end"
    more = add_entry(text, "a", "three", {"x": 1})
    assert yaml.safe_load(more)["a"]["three"] == {"x": 1}
    assert remove_entry(more, "a", "three") == text
    assert remove_entry(text, "a", "one").startswith("a:\n  # of two\n  two: |\n")
    assert remove_entry(text, "a", "two").endswith("  # of two\nb: {}  # end")


@pytest.mark.parametrize("word", ["1e-5", "1.5E3", "-2e+4", "0.5", "3"])
def test_numbers_are_written_so_that_every_reader_reads_them(word: str) -> None:
    text = add_entry("a:\n  b: 1\n", "a", "new", {"set": {"x": read_value(word)}})
    found = yaml.safe_load(text)["a"]["new"]["set"]["x"]
    assert found == float(word) and not isinstance(found, str)
