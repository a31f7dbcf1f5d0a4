"""The undisturbed project of the campaign, made once. Tests leave it as they found it."""

import importlib

import pytest

from tests.faults.lab import Lab, make_lab

HEAVY = (
    *("transformers.models.bert.modeling_bert", "transformers.models.qwen2.modeling_qwen2"),
    *(f"cosearch.engines.{name}" for name in ("encoder", "retriever_faiss", "heads", "codec_hf")),
    *(f"cosearch.engines.{name}" for name in ("generator_hf", "trainer_torch")),
    *(f"stages.{name}" for name in ("data", "encode", "index", "train", "fixed_ranker")),
)
"""What children would import anew, each of them."""


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A project that ran to its end and was never disturbed."""
    for name in HEAVY:
        importlib.import_module(name)
    lab = make_lab(tmp_path_factory.mktemp("calm") / "project")
    for stage, *words in (["data"], ["encode"], ["index"], ["train", "--row", "cosearch-0"]):
        ended = lab.stage(stage, *words)
        assert ended.code == 0, ended.said
    return lab
