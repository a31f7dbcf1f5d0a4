"""The hand-over to vLLM: believed only when every replica holds the new weights.

The engines here are ordinary models behind vLLM's interface, some with its known faults; the real
one stands in the generator contract and in the marked tests below.
"""

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.distributed.rendezvous import rendezvous

from cosearch.core.protocols import Generate
from cosearch.core.types import Sample, Sampling
from cosearch.engines.policies.arrival import Arrival
from cosearch.engines.policies.build import build_sampler
from cosearch.engines.policies.engine_vllm import OneEngine, open_engine
from cosearch.engines.policies.generator_vllm import VllmGenerator, Written
from cosearch.engines.policies.placement_vllm import apart
from cosearch.engines.policies.weights import checksum
from cosearch.params.blocks import Agent
from tests.engines.generators import (
    PROBE,
    engine_rules,
    micro_folder,
    open_hf,
    open_trainer,
    open_vllm,
    requests,
)
from tests.micro import EOS, VOCABULARY, save_causal_lm
from tests.settings import block


class ModelEngine:
    """Replicas of a transformers model behind the interface. ``stale`` are words in the names of
    weights that the last replica never takes over."""

    max_tokens = 64

    def __init__(self, folder: Path, replicas: int = 1, stale: Sequence[str] = ()) -> None:
        self._stopping = open_hf(folder)
        self._writing = open_hf(folder, frozenset())
        self._writing.model = self._stopping.model
        others = [open_hf(folder).model for _ in range(replicas - 1)]
        self._models = [self._stopping.model, *others]
        self.stale = stale

    def write(self, requests: Sequence[Generate], *, stops: bool) -> list[Written]:
        sampler = self._stopping if stops else self._writing
        return [(found.ids, found.logprobs) for found in sampler(requests)]

    def call(self, method: str, **values: Any) -> None:
        if method == "blank_weights":
            for model in self._models:
                for value in model.state_dict().values():
                    value.zero_()
            return
        assert method == "reload_weights"
        state = load_file(Path(values["weights_path"]) / "model.safetensors")
        for model in self._models:
            stale = self.stale if model is self._models[-1] else ()
            for name, value in model.state_dict().items():
                if not any(word in name for word in stale):
                    value.copy_(state[name])

    def forget(self) -> None:
        """It caches nothing."""

    def digests(self) -> dict[str, str]:
        return {
            f"dp{replica}:pp0:pcp0:tp0:{name}": checksum({"": value})
            for replica, model in enumerate(self._models)
            for name, value in model.state_dict().items()
        }

    def sleep(self, *, discard: bool) -> None:
        raise AssertionError("an engine without a GPU of its own does not sleep")

    def wake(self, part: str) -> None:
        raise AssertionError("nobody woke an engine that never slept")

    def close(self) -> None:
        """There is nothing to end."""


def sampler(engine: Any = None, factor: float = PROBE.factor) -> VllmGenerator:
    return VllmGenerator(
        engine or ModelEngine(micro_folder()),
        dtype="float32",
        vocabulary=VOCABULARY,
        eos_ids=frozenset({EOS}),
        rules=engine_rules().model_copy(
            update={"probe": PROBE.model_copy(update={"factor": factor}), "shared_gpus": True}
        ),
    )


def weights(seed: int = 1) -> dict[str, torch.Tensor]:
    """Those of the micro model; ``seed`` 0 gives the ones that engines start with."""
    return dict(open_hf(micro_folder(seed)).model.state_dict())


def test_weights_are_handed_over_after_those_of_the_start() -> None:
    generator = sampler()
    with pytest.raises(RuntimeError, match="first hand-over is of version 4, and 0 is needed"):
        generator.load_weights(weights(), 4)
    generator = sampler()
    generator.load_weights(weights(0), 0)
    moved = generator.load_weights(weights(), 4)
    assert (moved, generator.weights) == (sum(v.nbytes for v in weights().values()), 4)
    assert [g.ids for g in generator(requests(1.0))] == [
        g.ids for g in open_hf(micro_folder(1))(requests(1.0))
    ]


@pytest.mark.parametrize("stale", ["", "lm_head", "embed_tokens", "layers.1.mlp", "norm", "k_proj"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_weights_that_stay_behind_are_named_with_their_replica(stale: str, replicas: int) -> None:
    engine = ModelEngine(micro_folder(), replicas)
    generator = sampler(engine)
    generator.load_weights(weights(0), 0)
    engine.stale = (stale,)
    behind = rf"vLLM misses weights: \S*{stale}\S* in replica {replicas - 1}"
    with pytest.raises(RuntimeError, match=behind):
        generator.load_weights(weights(), 1)
    assert generator.weights == 0
    with pytest.raises(RuntimeError, match=f"holds others: .*{stale}.* in replica {replicas - 1}"):
        sampler(ModelEngine(micro_folder(), replicas, (stale,))).load_weights(weights(0), 0)


def test_replicas_that_hold_different_weights_are_named() -> None:
    arrival = Arrival({"dp0:tp0:a": "1", "dp1:tp0:a": "1"}, {"dp0:tp0:a": "0", "dp1:tp0:a": "0"})
    arrival.check({"dp0:tp0:a": "2", "dp1:tp0:a": "2"})
    with pytest.raises(RuntimeError, match=r"given the same weights and hold others: a in replica"):
        arrival.check({"dp0:tp0:a": "2", "dp1:tp0:a": "3"})


def test_a_weight_that_nobody_gave_is_named_before_anything_is_lost() -> None:
    generator = sampler()
    generator.load_weights(weights(0), 0)
    before = [g.ids for g in generator(requests(1.0))]
    fewer = {name: value for name, value in weights().items() if name != "model.norm.weight"}
    with pytest.raises(RuntimeError, match=r"Missing keys of the hand-over: model\.norm\.weight"):
        generator.load_weights(fewer, 1)
    assert [g.ids for g in generator(requests(1.0))] == before


def test_a_probe_allows_what_the_first_one_measured_and_no_more() -> None:
    generator, trainer = sampler(factor=3.0), open_trainer(micro_folder())

    def off(by: float) -> Callable[[Sequence[Sample]], list[list[float]]]:
        def measure(samples: Sequence[Sample]) -> list[list[float]]:
            return [[v + by for v in row] for row in trainer.logprobs(samples, 0.0)]

        return measure

    generator.probe(off(0.1))
    assert generator.baseline == pytest.approx(0.1, abs=1e-3)
    generator.probe(off(0.25))
    with pytest.raises(RuntimeError, match=r"differ by 0\.4 nats .* over 3 times the 0\.1 of"):
        generator.probe(off(0.4))


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


class TieForgotten(OneEngine):
    """Is given weights as ``save_pretrained`` writes them: without a tied output layer."""

    def __init__(self, engine: Any) -> None:
        self.__dict__ |= vars(engine)

    def call(self, method: str, **values: Any) -> None:
        if method == "reload_weights":
            path = Path(values["weights_path"]) / "model.safetensors"
            state = {n: value for n, value in load_file(path).items() if n != "lm_head.weight"}
            save_file(state, path, metadata={"format": "pt"})
        super().call(method, **values)


@pytest.mark.vllm
@pytest.mark.filterwarnings("ignore::FutureWarning:vllm.*")
def test_vllm_takes_over_a_tied_output_layer_only_by_name(tmp_path: Path) -> None:
    folder = save_causal_lm(tmp_path, hidden_size=64, tie_word_embeddings=True)
    generator = open_vllm(folder)
    other = save_causal_lm(tmp_path / "other", seed=1, hidden_size=64, tie_word_embeddings=True)
    start, weights = (dict(open_hf(one).model.state_dict()) for one in (folder, other))
    generator.load_weights(start, 0)
    generator.load_weights(weights, 1)
    assert [g.ids for g in generator(requests(0.0))] == [
        g.ids for g in open_hf(other)(requests(0.0))
    ]
    if torch.cuda.is_available():
        return  # the output layer is packed apart from the embedding on a CPU only
    generator.load_weights(start, 2)
    forgetful = sampler(TieForgotten(generator._engine))
    with pytest.raises(RuntimeError, match=r"holds others: lm_head\.packed in replica 0"):
        forgetful.load_weights(start, 0)


def test_a_launchers_variables_do_not_reach_what_starts_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launched = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_PORT": "1", "LOCAL_RANK": "3"}
    launched |= {"RANK": "3", "WORLD_SIZE": "4", "ROLE_NAME": "default", "CROSS_RANK": "0"}
    for name, value in launched.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MY_RANK", "kept")
    address, soon = "tcp://127.0.0.1:0?rank=0&world_size=1", timedelta(seconds=1)
    with pytest.raises(RuntimeError):  # it looks for a store that the launcher's agent has opened
        next(rendezvous(address, timeout=soon))
    with apart():
        assert not launched.keys() & os.environ.keys() and os.environ["MY_RANK"] == "kept"
        _, rank, size = next(rendezvous(address, timeout=soon))
    assert (rank, size) == (0, 1)
    assert launched.items() <= os.environ.items()


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
