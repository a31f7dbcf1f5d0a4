"""The rows of params.yaml: what each takes over, and the graph that follows from them."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from dvc.utils.serialize import modify_yaml

from cosearch.params.derived import GraphRows
from cosearch.params.reading import ConfigError
from cosearch.params.rows import PARTS, complete
from cosearch.params.rows_file import profile_folders, rows_text
from cosearch.params.settings import load_settings
from tests.settings import ROOT, tiny, write_params

FILES = ("params.yaml", "plan.yaml", "hub.yaml")
PROFILES = ("tiny", "mini", "paper")
RELEASED = {
    "reward.gamma": 0.8,
    "reward.gate_inclusive": True,
    "reward.main_threshold": 0.8,
    "reward.exclude_malformed_trajectories": False,
    "relevance.match": "substring",
    "group.k_min": 4,
    "credit.average_duplicates": True,
    "credit.drop_constant_groups": True,
    "credit.max_ranker_samples": 2.0,
    "loss.aggregation": "token_mean",
    "loss.dual_clip": 3.0,
    "loss.kl_coef": 0.001,
    "rollout.ranker_temperature": 0.0,
}
"""What the two presets differ in, but for the searches, which profile tiny sets itself."""


def with_rows(folder: Path, **rows: Any) -> Any:
    """The settings of profile tiny with more rows."""
    path = write_params(folder, lambda params: params["rows"].update(rows))
    return load_settings("tiny", path)


def test_a_row_takes_over_what_it_does_not_say(tmp_path: Path) -> None:
    ablation = {"like": "search_r1", "label": "two", "set": {"rollout.top_k": 2, "group.k_min": 2}}
    ablation["set"]["reward.hit_cutoffs"] = [1]
    rows = with_rows(tmp_path, two=ablation, three={"like": "two", "label": "three"}).rows
    one, two, three = rows["search_r1"], rows["two"], rows["three"]
    assert two.set == {**one.set, **ablation["set"]} == three.set
    kept = ("method", "ranker", "models", "shared", "train", "models_of", "preset")
    assert all(getattr(one, key) == getattr(two, key) == getattr(three, key) for key in kept)
    assert (two.label, two.part, two.grid, two.tables) == ("two", "more", False, {})
    full = rows["cosearch"]
    assert full.grid and full.tables and full.part == "core"
    assert not rows["wo_main"].grid and rows["wo_main"].part == "more"


def test_an_ablation_is_one_entry(tmp_path: Path) -> None:
    entry = {"like": "cosearch", "label": "w/o gate", "set": {"reward.gamma": 0.0}}
    settings = with_rows(tmp_path, no_gate=entry | {"tables": ["ablations"]})
    assert settings.variants["no_gate"].set == {"reward.gamma": 0.0}
    assert settings.systems["no_gate"].variant == "no_gate"
    shown = settings.tables.ablations.rows[-1]
    assert (shown.system, shown.label) == ("no_gate", "w/o gate")
    assert settings.graph.evaluations["no_gate-4"].needs == "train/more/seed_4/no_gate"


def test_a_preset_of_a_row_is_written_out() -> None:
    settings = tiny()
    assert settings.rows["released"].set == RELEASED == settings.variants["released"].set
    mine = settings.method(settings.rows["released"].set)
    released = settings.file.presets["released"]
    usual = settings.method()
    for block in type(mine).model_fields:
        if block != "rollout" and block != "reward":
            assert getattr(mine, block) == getattr(released, block)
    assert mine.rollout.max_searches == usual.rollout.max_searches


def test_the_walk_ends_at_the_released_preset() -> None:
    """The last step of the walk changes only what no step before it has."""
    rows = tiny().rows
    walk = {key: value for key, value in rows["walk_kl"].set.items()}
    assert walk.items() <= RELEASED.items()
    assert RELEASED.keys() - walk.keys() == {
        "relevance.match", "credit.average_duplicates", "credit.drop_constant_groups",
        "credit.max_ranker_samples", "loss.dual_clip",
    }  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_dvc_writes_the_parameters_as_they_are(name: str, tmp_path: Path) -> None:
    """So that `dvc exp run -S` changes the line of its key and no other."""
    copy = tmp_path / name
    shutil.copyfile(ROOT / name, copy)
    with modify_yaml(str(copy)):
        pass
    assert copy.read_text("utf-8") == (ROOT / name).read_text("utf-8")


@pytest.mark.parametrize("name", FILES[1:])
def test_a_block_stands_in_its_own_file(name: str, tmp_path: Path) -> None:
    block = name.removesuffix(".yaml")
    path = write_params(tmp_path, lambda params: None)
    (tmp_path / name).write_text(f"{(tmp_path / name).read_text()}rows: {{}}\n")
    with pytest.raises(ConfigError, match=rf"{name}: holds the block '{block}' and no other, not"):
        load_settings("tiny", path)
    write_params(tmp_path, lambda params: None)
    path.write_text(f"{path.read_text()}{block}: {{}}\n")
    with pytest.raises(ConfigError, match=rf"{name}: params\.yaml has a block '{block}' too"):
        load_settings("tiny", path)


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = write_params(tmp_path, lambda params: None)
    again = "\n  start:\n    like: cosearch\n    label: again\nseed_count:"
    path.write_text(path.read_text().replace("\nseed_count:", again))
    with pytest.raises(
        ConfigError, match=r"'start' stands twice in a block, in line \d+ and in line \d+"
    ) as caught:
        load_settings("tiny", path)
    assert "\n" not in str(caught.value)


def test_rows_yaml_is_up_to_date() -> None:
    folders = profile_folders(ROOT)
    assert set(folders) == set(PROFILES)
    for profile, folder in folders.items():
        text = rows_text(load_settings(profile, ROOT / "params.yaml"))
        assert (folder / "rows.yaml").read_text("utf-8") == text, profile
        told = yaml.safe_load((folder / "profile.yaml").read_text("utf-8"))
        assert (ROOT / told["folder"]).samefile(folder)
        assert (folder / told["root"]).samefile(ROOT)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_instance_is_named_once(profile: str) -> None:
    folder = profile_folders(ROOT)[profile]
    lines = (folder / "rows.yaml").read_text("utf-8").splitlines()
    for block in GraphRows.model_fields:
        first = next(n for n, line in enumerate(lines) if line.startswith(f"  {block}:"))
        names = []
        for line in lines[first + 1 :]:
            if not line.startswith("    "):
                break
            names.append(line.partition(":")[0])
        assert len(names) == len(set(names))
        told = getattr(load_settings(profile, ROOT / "params.yaml").graph, block)
        assert not isinstance(told, dict) or len(names) == len(told) > 0


def test_scopes_chain() -> None:
    """The collection of the last seed of a scope stands for those of all seeds before it."""
    graph = tiny().graph
    assert list(graph.scopes) == ["core_1", "core_3", "core_5", "all_1", "all_3", "all_5"]
    for name, scope in graph.scopes.items():
        part, _, count = name.rpartition("_")
        ends = dict.fromkeys((scope.first, scope.second))
        assert [end.rpartition("-")[0] for end in ends] == [*PARTS[part]]
        for end in ends:
            assert walked(graph, end) == [*range(int(count))][::-1]


def test_a_collection_waits_for_folders_that_rows_make() -> None:
    graph = tiny().graph
    assert {one.trained for one in graph.collections.values() if one.seed == 1} == {
        "train/core/seed_1",
        "train/more/seed_1",
    }


def walked(graph: GraphRows, name: str) -> list[int]:
    """Seeds of a collection and of those before it."""
    found = [graph.collections[name].seed]
    while (before := graph.collections[name].before) != "data/manifest.json":
        name = before.removeprefix("collected/").removesuffix(".json")
        found.append(graph.collections[name].seed)
    return found


def test_a_row_of_another_part_is_in_no_core_collection() -> None:
    settings = tiny()
    for rows in (settings.graph.trainings, settings.graph.evaluations):
        for name, row in rows.items():
            owner = name.rpartition("-")[0]
            part = settings.rows[owner].part if owner in settings.rows else "more"
            assert row.part == part
            assert f"{owner}-{row.seed}" == name


def test_entries_are_completed_in_their_order() -> None:
    file = tiny().file
    assert list(complete(file.rows)) == list(file.rows)
