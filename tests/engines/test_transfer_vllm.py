"""Weights that go to vLLM without a file: the orders, the gathering and vLLM's own protocol.

On a machine without a GPU the two ends that vLLM has for GPUs are replaced by two that meet in this
process; everything between them is the real thing.
"""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from cosearch.engines.policies.engine_vllm import OneEngine, _arguments, _Translator
from cosearch.engines.policies.generator_vllm import VllmGenerator
from cosearch.engines.policies.placement_vllm import prepare_environment
from cosearch.engines.policies.ranks import join
from cosearch.engines.policies.trainer_deepspeed import DeepSpeedTrainer
from cosearch.params.engines import Vllm
from tests.engines.generators import engine_rules, open_hf, requests
from tests.engines.policies import LOSS
from tests.engines.zero import worker
from tests.micro import EOS, VOCABULARY, save_causal_lm

DIRECT = engine_rules().model_copy(update={"transfer": "ipc", "shared_gpus": True})


@pytest.mark.parametrize("transfer", ["ipc", "nccl"])
@pytest.mark.skipif(torch.cuda.is_available(), reason="there are GPUs")
def test_ways_between_gpus_need_gpus(transfer: str) -> None:
    with pytest.raises(ValueError, match=f"transfer {transfer} needs GPUs, and this machine shows"):
        prepare_environment(DIRECT.model_copy(update={"transfer": transfer}))


@pytest.mark.parametrize(("transfer", "shared"), [("ipc", False), ("nccl", True)])
def test_a_way_must_fit_the_placement(
    transfer: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    rules = DIRECT.model_copy(update={"transfer": transfer, "shared_gpus": shared})
    with pytest.raises(ValueError, match="ipc is for samplers that share the trainers' GPUs"):
        prepare_environment(rules)


def meet_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put ends for one process in the place of vLLM's ends for ``ipc``."""
    from vllm.distributed.weight_transfer import base, factory
    from vllm.model_executor.model_loader.reload import (
        finalize_layerwise_reload,
        initialize_layerwise_reload,
    )

    held: dict[str, torch.Tensor] = {}

    @dataclass
    class Init(base.WeightTransferInitInfo):
        packed: bool = False

    @dataclass
    class Update(base.WeightTransferUpdateInfo):
        names: list[str] = field(default_factory=list)

    class Receiver(base.WeightTransferEngine[Init, Update]):
        init_info_cls, update_info_cls = Init, Update

        def init_transfer_engine(self, init_info: Init) -> None:
            assert init_info.packed

        def start_weight_update(self) -> None:
            initialize_layerwise_reload(self.model)

        def receive_weights(self, update_info: Update) -> None:
            self.model.load_weights([(name, held.pop(name)) for name in update_info.names])

        def finish_weight_update(self) -> None:
            finalize_layerwise_reload(self.model, self.model_config)

        def shutdown(self) -> None:
            held.clear()

    class Sender(base.TrainerWeightTransferEngine[Any]):
        @classmethod
        def trainer_init(cls, init_info: Any, *, client: Any, source: Any = None) -> Any:
            assert init_info.packed_buffer_size_bytes >= source.largest
            client.init_weight_transfer_engine({"packed": init_info.packed})
            return cls(client=client, source=source, is_sender=init_info.is_sender)

        def send_weights(self) -> None:
            self.client.start_weight_update()
            for one, (name, tensor) in zip(self.source.metadata(), self.source, strict=True):
                assert (one.name, one.shape, one.dtype) == (name, tensor.shape, tensor.dtype)
                held[name] = tensor
                self.client.update_weights({"names": [name]})
            self.client.finish_weight_update()

    for registry, end in (
        (factory.WeightTransferEngineFactory._registry, Receiver),
        (factory.WeightTransferTrainerFactory._registry, Sender),
    ):
        monkeypatch.setitem(registry, "ipc", lambda end=end: end)


def direct_sampler(folder: Path, rules: Vllm) -> VllmGenerator:
    eos_ids = frozenset({EOS})
    prepare_environment(rules.model_copy(update={"transfer": "file"}))
    arguments = _arguments(folder, rules, "float32", gpus=False)
    engine = OneEngine(arguments, _Translator(VOCABULARY, eos_ids))
    return VllmGenerator(
        engine, dtype="float32", vocabulary=VOCABULARY, eos_ids=eos_ids, rules=rules
    )


def send_three_times(folder: Path) -> None:
    """Three hand-overs of a model that ZeRO has parted; ``folder`` holds it as ``model``."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        meet_in_this_process(monkeypatch)
        generator = direct_sampler(folder / "model", DIRECT)
        trainer = DeepSpeedTrainer(join(), worker.plan(folder, 3, loss=LOSS))
        for version in range(3):
            moved = generator.load_weights(trainer, trainer.version)
            assert moved == sum(tensor.nbytes for tensor in trainer.weights().values())
            trainer.export(folder / str(version))
            asked = requests(0.0)
            expected = open_hf(folder / str(version))(asked)
            assert [g.ids for g in generator(asked)] == [g.ids for g in expected]
            trainer.update(worker.grouped(), 1.0)


@pytest.mark.vllm
def test_weights_reach_vllm_from_the_ranks_without_a_file(tmp_path: Path) -> None:
    """In a process of its own, because engine and trainer share a group that ends with them."""
    save_causal_lm(tmp_path / "model", hidden_size=64, tie_word_embeddings=True)
    command = [sys.executable, "-m", "tests.engines.test_transfer_vllm", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


if __name__ == "__main__":
    send_three_times(Path(sys.argv[1]))
