"""Base training end to end on micro recipes: ordinary folders, equal bytes, checked parameters."""

from pathlib import Path
from typing import Any

import pytest

from cosearch.artifacts import hash_file
from cosearch.engines.build import build_codec, build_sampler
from cosearch.pretrain.base_models import Interface, Recipe, build_base_models, override

DOCUMENT = "{title} [{number}] {text}\n"
INTERFACE = Interface("query: ", "passage: ", "tiny", DOCUMENT, DOCUMENT, frozenset())
MICRO = {
    "encoder": {"steps": 2, "batch": 8, "worlds": 1},
    "shape": {"hidden_size": 32, "layers": 1, "heads": 1, "feed_forward": 32},
    "curriculum": {"sizes": [8]},
    "ranker": {"steps": 2, "batch": 2, "learning_rate": 0.01},
    "agent": {"steps": 2, "batch": 2, "learning_rate": 0.01},
    "pool": 1,
    "rows": {"nq": 8, "hotpotqa": 8},
}


def build(folder: Path, **changes: Any) -> dict[str, Any]:
    recipe = override(Recipe(), {**MICRO, **changes})
    return build_base_models(folder, recipe, INTERFACE, lambda *progress: None)


def test_models_are_ordinary_folders_with_equal_bytes(tmp_path: Path) -> None:
    record = build(tmp_path / "one")
    assert record["files"] == build(tmp_path / "two")["files"]
    for name, digest in record["files"].items():
        assert hash_file(tmp_path / "one" / name) == digest
    for role in ("agent", "ranker"):
        codec = build_codec(tmp_path / "one" / role)
        assert codec.decode(codec.tokenizer("who is Last ?").input_ids) == "who is Last ?"
        assert build_sampler(tmp_path / "one" / role, codec, batch_tokens=64, dtype="float32")
        assert (
            record["files"][f"{role}/tokenizer.json"] == record["files"]["encoder/tokenizer.json"]
        )


def test_another_seed_is_another_model(tmp_path: Path) -> None:
    one, two = (build(tmp_path / str(seed), seed=seed)["files"] for seed in (1, 2))
    assert one["agent/model.safetensors"] != two["agent/model.safetensors"]


def test_an_unknown_key_of_the_recipe_is_refused() -> None:
    with pytest.raises(ValueError, match="no 'epochs'"):
        override(Recipe(), {"agent": {"epochs": 1}})


def test_a_ranker_that_never_ranks_full_lists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no further than 2 candidates"):
        build(tmp_path, curriculum={"sizes": [2, 8]})
