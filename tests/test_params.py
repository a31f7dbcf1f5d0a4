"""params.yaml: complete, strict, and wrong in one line."""

# ruff: noqa: E501 - a case is one line

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cosearch.params import blocks
from cosearch.params.derived import FIXED_RANKER
from cosearch.params.reading import ConfigError
from cosearch.params.settings import load_settings
from cosearch.run.identity import instances
from tests.settings import write_params

ROOT = Path(__file__).parents[1]
Change = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize("profile", ["tiny", "mini", "paper"])
def test_the_shipped_parameters_are_good(profile: str) -> None:
    settings = load_settings(profile, ROOT / "params.yaml")
    assert settings.method().rollout.group_size == 8
    assert settings.section(blocks.Train).questions > 0


def test_profile_paper_holds_the_published_numbers() -> None:
    settings = load_settings("paper", ROOT / "params.yaml")
    sets = settings.section(blocks.Data).sets
    train, rollout = settings.section(blocks.Train), settings.method().rollout
    assert {name: row.test for name, row in sets.items()} == {
        "nq": 3610, "triviaqa": 11313, "popqa": 14267, "hotpotqa": 7405,
        "2wikimultihopqa": 12576, "musique": 2417, "bamboogle": 125,
    }  # fmt: skip
    assert sum(row.train or 0 for row in sets.values()) == 51200 == train.rounds * train.questions
    assert settings.section(blocks.FixedRanker).lists == 92160
    assert (rollout.top_n, rollout.top_k, rollout.group_size, rollout.max_searches) == (50, 5, 8, 6)
    assert settings.section(blocks.Evaluate).k_grid == (1, 3, 5, 10)


def test_profile_paper_leaves_no_row_out() -> None:
    """Every system is evaluated, every variant trained, and each finds its models."""
    settings = load_settings("paper", ROOT / "params.yaml")
    graph = settings.graph
    assert {row.system for row in graph.evaluations.values()} == set(settings.systems)
    assert {row.variant for row in graph.trainings.values()} == set(settings.variants)
    assert set(settings.rows) <= set(settings.systems)
    assert settings.section(blocks.Evaluate).systems is None
    models = settings.section(blocks.Models).model_dump()
    asked = {
        name
        for row in [*settings.variants.values(), *settings.systems.values()]
        for name in row.models.values()
    }
    assert not [name for name in asked - {FIXED_RANKER} if not models[name]]


@pytest.fixture
def paper_graph(tmp_path: Path) -> Path:
    """A folder in which DVC can plan profile paper: without a GPU, data or models."""
    folder = tmp_path / "profiles" / "paper"
    folder.mkdir(parents=True)
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\n    no_scm = true\n    check_update = false\n")
    for name in ("cosearch", "stages", "params.yaml"):
        (tmp_path / name).symlink_to(ROOT / name)
    (folder / "dvc.yaml").symlink_to(ROOT / "dvc.yaml")
    for name in ("profile.yaml", "rows.yaml"):
        shutil.copyfile(ROOT / "profiles/paper" / name, folder / name)
    return tmp_path


def planned(folder: Path, target: str) -> dict[str, set[str]]:
    """Stage -> the instances that a target needs; DVC needs --force where nothing was ever run."""
    command = [sys.executable, "-m", "dvc", "repro", "--dry", "--force", target]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, set[str]] = {}
    for stage, row in re.findall(r"^Running stage '(?:.*:)?(\w+)@?(.*)':$", done.stdout, re.M):
        found.setdefault(stage, set()).add(row)
    return found


def test_dvc_plans_every_instance_of_profile_paper(paper_graph: Path) -> None:
    settings = load_settings("paper", ROOT / "params.yaml")
    every: dict[str, set[str]] = {}
    for name, axes in instances(settings):
        every.setdefault(name, set()).update(map(str, axes.values()) if axes else {""})
    found = planned(paper_graph, "profiles/paper/dvc.yaml")
    assert found.pop("identity") == {""}
    assert found == every


def test_three_seeds_of_the_core_rows_need_no_other_seed_and_no_other_row(
    paper_graph: Path,
) -> None:
    settings = load_settings("paper", ROOT / "params.yaml")
    found = planned(paper_graph, "profiles/paper/dvc.yaml:report@core_3")
    core = {name for name, row in settings.rows.items() if row.part == "core"}
    assert core and found["evaluate"] == {f"{name}-{seed}" for name in core for seed in range(3)}
    learnt = core & settings.variants.keys()
    assert found["train"] == found["gate"] == {f"{name}-{n}" for name in learnt for n in range(3)}
    assert found["fixed_ranker"] == {"0", "1", "2"}
    assert found["collected"] == {"core-0", "core-1", "core-2"}
    assert found["tables"] == found["oracle_gap"] == found["report"] == {"core_3"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p["plan"].update(gpu="h100"), ["plan", "gpu=h100", "h100-80"]),
        (lambda p: p["plan"]["models"].update({"models/paper/large": "qwen"}), ["plan", "no architecture 'qwen'"]),
        (lambda p: p["presets"]["paper"]["reward"].update(gama=0.5), ["presets.paper.reward.gama"]),
        (lambda p: p["presets"]["paper"]["reward"].pop("gamma"), ["presets.paper.reward.gamma"]),
        (lambda p: p["presets"]["paper"]["rollout"].update(top_k=60), ["top_k=60", "top_n=50"]),
        (lambda p: p["profiles"]["tiny"]["method"].update({"rollout.top_k": 9}), ["top_k=9", "top_n=8"]),
        (lambda p: p["profiles"]["tiny"]["method"].update({"rollout.top_k": 2}), ["hit_cutoffs", "top_k=2"]),
        (lambda p: p["profiles"]["tiny"]["method"].update({"rollout.topk": 2}), ["rollout.topk", "top_k"]),
        (lambda p: p["profiles"]["tiny"].update(preset="papr"), ["profiles.tiny.preset", "no 'papr'", "did you mean 'paper'?"]),
        (lambda p: p["rows"]["wo_main"].update(like="cosaerch"), ["rows.wo_main.like", "no row 'cosaerch' stands above"]),
        (lambda p: p["rows"]["cot"].update(like="start"), ["rows.cot.like", "no row 'start' stands above"]),
        (lambda p: p["rows"]["cosearch"].update(like="cosearch"), ["rows.cosearch.like", "no row 'cosearch' stands above"]),
        (lambda p: p["rows"]["direct"].pop("method"), ["rows.direct", "method is missing"]),
        (lambda p: p["rows"]["direct"].pop("ranker"), ["rows.direct", "ranker is missing"]),
        (lambda p: p["rows"]["direct"].pop("models"), ["rows.direct", "models is missing"]),
        (lambda p: p["rows"]["direct"].pop("label"), ["rows.direct.label"]),
        (lambda p: p["rows"]["direct"].update(methods="cot"), ["rows.direct.methods"]),
        (lambda p: p["rows"]["small_ranker"].update(models={"agent": "agent", "ranker": "tiny"}), ["rows.small_ranker.models", "tiny"]),
        (lambda p: p["rows"]["small_ranker"].update(models={"ranking": "ranker"}), ["rows.small_ranker.models", "ranking"]),
        (lambda p: p["rows"]["oracle"].update(models_of="orcale"), ["rows.oracle.models_of", "trained rows: no 'orcale'"]),
        (lambda p: p["rows"]["oracle"].update(models_of="direct"), ["rows.oracle.models_of", "trained rows: no 'direct'"]),
        (lambda p: p["rows"]["oracle"].update(ranker="perfect"), ["rows.oracle.ranker"]),
        (lambda p: p["rows"]["oracle"].update(part="most"), ["rows.oracle.part"]),
        (lambda p: p["rows"]["released"].update(preset="relaesed"), ["rows.released.preset", "relaesed", "did you mean 'released'?"]),
        (lambda p: p["rows"]["cosearch"].update(set={"reward.gama": 1}), ["rows.cosearch.set", "no key 'reward.gama'", "did you mean 'reward.gamma'"]),
        (lambda p: p["rows"]["cosearch"].update(set={"rewards.gamma": 1}), ["rows.cosearch.set", "no key 'rewards.gamma'", "did you mean 'reward.gamma'"]),
        (lambda p: p["rows"]["cosearch"].update(set={"train.rounds": -1}), ["rows.cosearch.set, profile mini: rounds:"]),
        (lambda p: p["rows"]["cosearch"].update(set={"rollout.top_k": 9}), ["rows.cosearch.set, profile ", "top_k=9", "top_n=8"]),
        (lambda p: p["rows"]["direct"].update(tables=["main_lagre"]), ["rows.direct.tables", "no table 'main_lagre'", "main_large"]),
        (lambda p: p["rows"]["direct"].update(tables=["groups"]), ["rows.direct.tables, groups: trained rows: no 'direct'"]),
        (lambda p: [row.pop("tables", None) for name, row in p["rows"].items() if "walk" in row.get("tables", {})], ["tables", "no row stands in walk"]),
        (lambda p: p["rows"].update({"Cosearch 2": dict(p["rows"]["start"])}), ["rows.Cosearch 2", "lower case letters"]),
        (lambda p: p["rows"].update(base=dict(p["rows"]["start"])), ["rows.base", "is not 'base'"]),
        (lambda p: p["rows"].update(cosearch_grid_0=dict(p["rows"]["start"])), ["rows.cosearch_grid_0", "the row cosearch has an evaluation of this name"]),
        (lambda p: p["tables"]["oracle"][0].update(oracle="orcale"), ["tables.oracle.large.oracle: no 'orcale'"]),
        (lambda p: p["comparisons"][0].update(left="cosaerch"), ["comparisons.0.left: no 'cosaerch'; did you mean 'cosearch'"]),
        (lambda p: p["tables"]["detectable"].update(left="cosaerch"), ["tables.detectable.left: no 'cosaerch'"]),
        (lambda p: p["profiles"]["tiny"]["evaluate"].update(k_grid=[1, 9]), ["profiles.tiny.evaluate.k_grid", "top_k=9", "top_n=8"]),
        (lambda p: p["rows"]["cosearch"].update(set={"train.roundz": 1}), ["rows.cosearch.set: no key 'train.roundz'", "did you mean 'train.rounds'"]),
        (lambda p: p["rows"]["cosearch"].update(set={"train.deepspeed.stage": 1}), ["rows.cosearch.set: no key 'train.deepspeed.stage'"]),
        (lambda p: p["rows"]["cosearch"].update(models={"agent": "agent"}), ["rows.cosearch.models", "role 'ranker'"]),
        (lambda p: p["rows"]["start"].update(models={"agent": "agent"}), ["rows.start.models", "role 'ranker'"]),
        (lambda p: p["rows"]["zerosearch"].update(models={"agent": "agent"}), ["rows.zerosearch.models", "role 'simulator'"]),
        (lambda p: p["comparisons"][0].update(metric="bleu"), ["comparisons.0.metric"]),
        (lambda p: p["comparisons"][0].update(metric="hit_4"), ["comparisons.0.metric: hit_4", "measures k in ["]),
        (lambda p: p["tables"]["ablations"].update(varying=["topk"]), ["tables.ablations.varying.0", "'top_k'"]),
        (lambda p: p["profiles"]["tiny"]["evaluate"].update(systems=["cosaerch"]), ["profiles.tiny.evaluate.systems: no 'cosaerch'; did you mean 'cosearch'"]),
        (lambda p: p.update(seed_count=0), ["seed_count"]),
        (lambda p: p.update(trainings={}), ["trainings"]),
        (lambda p: p["profiles"]["tiny"]["train"].update(agent_lr=0), ["profiles.tiny.train.agent_lr"]),
        (lambda p: p["profiles"]["tiny"]["train"].update(torch=None), ["profiles.tiny, profile tiny", "train.torch is null: give its rules"]),
        (lambda p: p["profiles"]["tiny"]["train"].update(torch={"dtype": "float16"}), ["profiles.tiny.train.torch.dtype"]),
        (lambda p: p["profiles"]["tiny"]["train"].update(torch={"dtype": "bfloat16"}), ["profiles.tiny", "agent.dtype is float32, and train.torch.dtype is bfloat16", "narrower"]),
        (lambda p: p["rows"]["cosearch"].update(set={"train.torch.dtype": "bfloat16"}), ["rows.cosearch", "agent.dtype is float32"]),
        (lambda p: p.update(extra=1), ["extra"]),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_named_in_one_line(
    tmp_path: Path, change: Change, words: list[str]
) -> None:
    path = write_params(tmp_path, change)
    with pytest.raises(ConfigError) as caught:
        load_settings("tiny", path)
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message
    assert not [word for word in words if word not in message]


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no 'huge'; there are .*tiny"):
        load_settings("huge", ROOT / "params.yaml")


def test_broken_yaml_and_a_missing_file_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file; run from the project's root"):
        load_settings("tiny", tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("rows: [", "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings("tiny", tmp_path / "params.yaml")
    assert "\n" not in str(caught.value)


def test_overrides_reach_their_section_and_only_theirs() -> None:
    settings = load_settings("tiny", ROOT / "params.yaml")
    changed = {"reward.gamma": 0.25, "train.rounds": 3}
    assert settings.method(changed).reward.gamma == 0.25
    assert settings.section(blocks.Train, changed).rounds == 3
    assert settings.method().reward.gamma == 0.5


def test_an_evaluation_has_room_for_the_documents_of_its_k() -> None:
    """And in every search of a response; training keeps the limits of the profile."""
    settings = load_settings("paper", ROOT / "params.yaml")
    trained = settings.section(blocks.Agent)
    each = settings.section(blocks.Evaluate).document_tokens
    for name in settings.systems:
        overrides = settings.overrides_of(name)
        rollout, agent = (
            settings.method(overrides).rollout,
            settings.section(blocks.Agent, overrides),
        )
        room = max(trained.max_observation_tokens, rollout.top_k * each)
        assert agent.max_observation_tokens == room, name
        more = agent.max_response_tokens - trained.max_response_tokens
        assert more == rollout.max_searches * (room - trained.max_observation_tokens), name
    widest = settings.section(blocks.Agent, settings.overrides_of("cosearch_grid_3"))
    assert widest.max_observation_tokens == 10 * each > trained.max_observation_tokens


def test_evaluations_of_tiny_keep_the_limits_of_training() -> None:
    """Its passages are so short that all K of them fit."""
    settings = load_settings("tiny", ROOT / "params.yaml")
    for name in settings.systems:
        found = settings.section(blocks.Agent, settings.overrides_of(name))
        assert found == settings.section(blocks.Agent)


def test_what_was_asked_for_is_remembered() -> None:
    settings = load_settings("tiny", ROOT / "params.yaml")
    settings.section(blocks.Train)
    settings.variant("cosearch")
    assert settings.asked == {"train", "rows"}


def test_both_presets_are_complete_and_differ_where_the_release_does() -> None:
    paper, released = (
        load_settings("tiny", ROOT / "params.yaml").file.presets[name]
        for name in ("paper", "released")
    )
    assert (paper.reward.gamma, released.reward.gamma) == (0.5, 0.8)
    assert (paper.reward.main_threshold, released.reward.main_threshold) == (None, 0.8)
    assert (paper.group.k_min, released.group.k_min) == (3, 4)
    assert (paper.rollout.ranker_temperature, released.rollout.ranker_temperature) == (1.0, 0.0)
    assert (paper.loss.kl_coef, released.loss.kl_coef) == (0.0, 0.001)


def test_dvc_is_free_to_run_the_graph_of_a_profile_folder() -> None:
    """DVC refuses a dvc.yaml that git ignores; the links of profiles/ are made by make."""
    for folder in (path for path in (ROOT / "profiles").iterdir() if path.is_dir()):
        name = str((folder / "dvc.yaml").relative_to(ROOT))
        done = subprocess.run(["git", "check-ignore", "-q", name], cwd=ROOT)
        assert done.returncode == 1, name
