"""The hand-over to vLLM: believed only when the engine computes with the new weights.

The engines here are ordinary models behind vLLM's interface, some with its known faults; the real
one stands in the generator contract and in the marked tests below.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cosearch.core.protocols import Generate
from cosearch.core.types import Sampling
from cosearch.engines.policies.build import build_sampler
from cosearch.engines.policies.engine_vllm import open_engine
from cosearch.engines.policies.generator_vllm import Reference, VllmGenerator, Written
from cosearch.params.blocks import Agent
from cosearch.params.engines import VllmProbe
from tests.engines.generators import (
    PROBE,
    engine_rules,
    micro_folder,
    open_hf,
    open_vllm,
    requests,
)
from tests.micro import EOS, VOCABULARY, save_causal_lm
from tests.settings import block


class ModelEngine:
    """A transformers model behind the interface; ``stale`` names weights it never takes over."""

    max_tokens = 64

    def __init__(self, folder: Path, stale: Sequence[str] = ()) -> None:
        self._stopping = open_hf(folder)
        self._writing = open_hf(folder, frozenset())
        self._writing.model = self._stopping.model
        self._stale = stale

    def write(self, requests: Sequence[Generate], *, stops: bool) -> list[Written]:
        sampler = self._stopping if stops else self._writing
        return [(found.ids, found.logprobs) for found in sampler(requests)]

    def reload(self, folder: Path) -> None:
        state = load_file(folder / "model.safetensors")
        kept = {n: v for n, v in state.items() if not any(word in n for word in self._stale)}
        with torch.no_grad():
            for name, value in self._stopping.model.state_dict().items():
                if name in kept:
                    value.copy_(kept[name])

    def sleep(self) -> None:
        raise AssertionError("an engine without a GPU of its own does not sleep")

    wake = close = sleep


def sampler(
    *, folder: Path | None = None, rules: VllmProbe = PROBE, stale: Sequence[str] = ()
) -> VllmGenerator:
    folder = folder or micro_folder()
    return VllmGenerator(
        ModelEngine(folder, stale),
        Reference(folder, dtype="float32", vocabulary=VOCABULARY),
        eos_ids=frozenset({EOS}),
        rules=rules,
        shared_gpus=True,
    )


def new_weights() -> dict[str, torch.Tensor]:
    return dict(open_hf(micro_folder(1)).model.state_dict())


def test_a_hand_over_is_probed_before_and_after() -> None:
    generator = sampler()
    generator.load_weights(new_weights(), 4)
    assert generator.probe is not None
    assert generator.probe.after < 1e-6 < 0.1 < generator.probe.before
    assert [g.ids for g in generator(requests(1.0))] == [
        g.ids for g in open_hf(micro_folder(1))(requests(1.0))
    ]


@pytest.mark.parametrize("stale", ["", "lm_head", "embed_tokens", "layers.1.mlp", "norm", "k_proj"])
def test_weights_that_stay_behind_are_noticed(stale: str) -> None:
    generator = sampler(stale=(stale,))
    before = generator.checksum()
    with pytest.raises(RuntimeError, match="stale weights"):
        generator.load_weights(new_weights(), 1)
    assert (generator.weights, generator.checksum()) == (0, before)


def test_an_update_too_small_to_see_is_rehearsed_with_larger_ones() -> None:
    start = {name: value.clone() for name, value in open_hf().model.state_dict().items()}
    with pytest.raises(RuntimeError, match="stale weights"):
        sampler(stale=("lm_head",)).load_weights(start, 1)


def test_a_probe_that_would_pass_anything_is_refused() -> None:
    with pytest.raises(RuntimeError, match="the probe is blind"):
        sampler(rules=PROBE.model_copy(update={"tolerance": 100.0})).load_weights(new_weights(), 1)


def test_a_tied_output_layer_is_handed_over_by_name(tmp_path: Path) -> None:
    folder = save_causal_lm(tmp_path, tie_word_embeddings=True)
    Reference(folder, dtype="float32", vocabulary=VOCABULARY).save(tmp_path)
    assert "lm_head.weight" in load_file(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        (Sampling(1.0, 0.9, 0, 4), r"top_p=0\.9.*whole distribution.*engine hf"),
        (Sampling(1.0, 1.0, 5, 4), r"top_k=5"),
        (Sampling(0.0, 1.0, 0, 62), r"65 tokens exceeds max_model_tokens = 64"),
    ],
)
def test_what_vllm_would_answer_wrongly_is_refused(sampling: Sampling, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sampler()([Generate("agent", (5, 6, 7), sampling, 1)])


def test_engines_that_are_not_there_are_named() -> None:
    with pytest.raises(ValueError, match=r"unknown engine 'vlm'; .* hf, vllm"):
        build_sampler("models/none", None, block(Agent, engine="vlm"))
    with pytest.raises(ValueError, match="engine vllm needs its rules"):
        build_sampler("models/none", None, block(Agent, engine="vllm", vllm=None))


class TieForgotten(Reference):
    """Writes weights as ``save_pretrained`` does: without a tied output layer."""

    def save(self, folder: Path) -> None:
        super().save(folder)
        path = folder / "model.safetensors"
        state = {name: value for name, value in load_file(path).items() if name != "lm_head.weight"}
        save_file(state, path, metadata={"format": "pt"})


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore::FutureWarning:vllm.*")
def test_vllm_takes_over_a_tied_output_layer_only_by_name(tmp_path: Path) -> None:
    folder = save_causal_lm(tmp_path, hidden_size=64, tie_word_embeddings=True)
    generator = open_vllm(folder)
    other = save_causal_lm(tmp_path / "other", seed=1, hidden_size=64, tie_word_embeddings=True)
    weights = dict(open_hf(other).model.state_dict())
    generator.load_weights(weights, 1)
    assert [g.ids for g in generator(requests(0.0))] == [
        g.ids for g in open_hf(other)(requests(0.0))
    ]
    if torch.cuda.is_available():
        return  # the output layer is packed apart from the embedding on a CPU only
    forgetful = VllmGenerator(
        generator._engine,
        TieForgotten(folder, dtype="float32", vocabulary=VOCABULARY),
        eos_ids=frozenset({EOS}),
        rules=PROBE,
        shared_gpus=False,
    )
    with pytest.raises(RuntimeError, match="stale weights"):
        forgetful.load_weights(weights, 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there are GPUs")
def test_gpus_that_are_not_there_are_named() -> None:
    with pytest.raises(ValueError, match=r"devices \[0\] are GPUs, and this machine shows none"):
        open_engine(
            micro_folder(),
            engine_rules(devices=[0]),
            dtype="float32",
            vocabulary=VOCABULARY,
            eos_ids=frozenset({EOS}),
        )
