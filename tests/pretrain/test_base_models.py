"""Base training on micro recipes gives ordinary folders and equal bytes, and checks parameters."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from cosearch.engines.policies.build import build_codec, build_sampler
from cosearch.files.hashes import hash_file
from cosearch.params.blocks import Agent
from cosearch.pretrain.base_models import LESSONS, build_base_models
from cosearch.pretrain.recipe import Interface, Recipe, override
from tests.pretrain.conftest import DOCUMENT
from tests.settings import block

INTERFACE = Interface("query: ", "passage: ", "tiny", DOCUMENT, DOCUMENT, frozenset())
STEPS = {"steps": 2, "batch": 2, "learning_rate": 0.01}
SHAPE = {"hidden_size": 32, "layers": 1, "heads": 1, "feed_forward": 32}
FITTED = ("ranker", "agent", "ranker_small", "agent_small", "shared", "simulator", "cross_encoder")
MICRO = {
    "encoder": {"steps": 2, "batch": 8, "worlds": 1},
    "shape": SHAPE,
    "small": SHAPE | {"feed_forward": 16},
    "curriculum": {"sizes": [8]},
    **dict.fromkeys(FITTED, STEPS),
    "pool": 1,
    "rows": {"nq": 40, "hotpotqa": 8},
    "measured": 48,
}
CAUSAL = sorted(set(LESSONS) - {"encoder", "cross_encoder"})


def build(folder: Path, *only: str, **changes: Any) -> dict[str, Any]:
    recipe = override(Recipe(), {**MICRO, **changes})
    return build_base_models(folder, recipe, INTERFACE, lambda *progress: None, only=only)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """All models, and their records."""
    folder = tmp_path_factory.mktemp("models")
    return folder, build(folder, *LESSONS)


@pytest.mark.parametrize("name", LESSONS)
def test_a_model_made_alone_has_equal_bytes(
    made: tuple[Path, dict[str, Any]], name: str, tmp_path: Path
) -> None:
    folder, records = made
    assert build(tmp_path, name) == {name: records[name]}
    for file, digest in records[name]["files"].items():
        assert hash_file(folder / name / file) == hash_file(tmp_path / name / file) == digest


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_models_are_ordinary_folders(made: tuple[Path, dict[str, Any]], name: str) -> None:
    folder, records = made
    codec = build_codec(folder / name)
    assert codec.decode(codec.tokenizer("who is Last ?").input_ids) == "who is Last ?"
    assert build_sampler(folder / name, codec, block(Agent))
    spelled = "tags" in name
    tokenizers = records[name]["files"], records["encoder"]["files"]
    assert (tokenizers[0]["tokenizer.json"] != tokenizers[1]["tokenizer.json"]) == spelled


def test_tag_grammar_agents_are_the_agents_themselves(made: tuple[Path, dict[str, Any]]) -> None:
    _, records = made
    for tags, agent in (("agent_tags", "agent"), ("agent_tags_small", "agent_small")):
        same = [records[name]["files"]["model.safetensors"] for name in (tags, agent)]
        assert same[0] == same[1]
        assert "Not trained apart" in records[tags]["note"]
        assert records[tags]["measures"] == records[agent]["measures"]
        assert "note" not in records[agent]


def test_the_cross_encoder_gives_one_score(made: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = made
    model = AutoModelForSequenceClassification.from_pretrained(
        folder / "cross_encoder", dtype=torch.float32
    )
    assert model(input_ids=torch.tensor([[5, 6, 7], [5, 6, 0]])).logits.shape == (2, 1)


def test_records_hold_what_bears_on_a_model(made: tuple[Path, dict[str, Any]]) -> None:
    _, records = made
    assert "simulation" in records["simulator"]["recipe"]
    assert "simulation" not in records["agent"]["recipe"]
    assert records["agent"]["recipe"]["agent"]["steps"] == 2
    assert set(records["shared"]["measures"]) == {"query", "answer", "ranking"}
    for record in records.values():
        for shares in record["measures"].values():
            assert all(0 <= share <= 1 for share in shares.values())


def test_models_that_are_not_asked_for_stay(tmp_path: Path) -> None:
    first = build(tmp_path, "encoder")
    second = build(tmp_path, "cross_encoder", seed=2)
    assert second["encoder"] == first["encoder"]
    assert sorted(second) == ["cross_encoder", "encoder"]


def test_another_seed_is_another_model(tmp_path: Path) -> None:
    one, two = (build(tmp_path / str(seed), "agent", seed=seed)["agent"] for seed in (1, 2))
    assert one["files"]["model.safetensors"] != two["files"]["model.safetensors"]


def test_an_unknown_key_of_the_recipe_is_refused() -> None:
    with pytest.raises(ValueError, match="no 'epochs'"):
        override(Recipe(), {"agent": {"epochs": 1}})


def test_an_unknown_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no model 'referee'; there are encoder, ranker"):
        build(tmp_path, "referee")


@pytest.mark.parametrize("role", ["ranker", "ranker_small"])
def test_a_ranker_that_never_ranks_full_lists_is_refused(tmp_path: Path, role: str) -> None:
    with pytest.raises(ValueError, match=f"{role}.steps=2: the ranker got no further than 2 cand"):
        build(tmp_path, role, curriculum={"sizes": [2, 8]})
