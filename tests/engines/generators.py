"""Every sampler that writes, micro-sized, as the generator contract takes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from cosearch.core.protocols import Generate
from cosearch.core.types import Generation, Sampling
from cosearch.engines.policies.engine_vllm import open_engine
from cosearch.engines.policies.generator_hf import HfGenerator
from cosearch.engines.policies.generator_vllm import VllmGenerator
from cosearch.engines.policies.heads import CausalHead
from cosearch.engines.policies.trainer_torch import TorchTrainer
from cosearch.engines.scripted import END, ScriptedPolicy
from cosearch.params.engines import Vllm, VllmProbe
from tests.engines.policies import LOSS, RULES
from tests.micro import EOS, VOCABULARY, save_causal_lm

PROBE = VllmProbe(prompts=2, tokens=8, factor=100)
PROMPTS = ((5, 6, 7), (5, 6, 7), (9, 3, 11, 30, 2, 8), (20,), (4, 4))


@dataclass(frozen=True)
class Writer:
    """A sampler that writes: how to open it, where it stops, and the folder of its weights."""

    name: str
    open: Callable[[], Any]
    eos: int
    folder: Callable[[], Path] | None = None

    def __str__(self) -> str:
        return self.name


@cache
def micro_folder(seed: int = 0) -> Path:
    """A model that vLLM's CPU attention takes: heads of 32."""
    folder = Path(mkdtemp(prefix="cosearch-micro-"))
    return save_causal_lm(folder, seed=seed, hidden_size=64, max_position_embeddings=512)


def open_hf(folder: Path | None = None, eos_ids: frozenset[int] = frozenset({EOS})) -> HfGenerator:
    return HfGenerator(
        folder or micro_folder(),
        vocabulary=VOCABULARY,
        eos_ids=eos_ids,
        batch_tokens=4096,
        dtype="float32",
    )


def open_trainer(folder: Path) -> TorchTrainer:
    return TorchTrainer(
        folder,
        head=CausalHead(VOCABULARY),
        dtype="float32",
        rules=RULES,
        loss=LOSS,
        scratch=Path("unused"),
    )


def engine_rules(replicas: int = 1, devices: Sequence[int] = ()) -> Vllm:
    return Vllm(
        replicas=replicas,
        tensor_parallel=1,
        devices=tuple(devices),
        shared_gpus=False,
        memory_share=0.5,
        max_model_tokens=None,
        max_sequences=64,
        eager=True,
        backend=None,
        transfer="file",
        probe=PROBE,
    )


@cache
def open_vllm(folder: Path | None = None) -> VllmGenerator:
    """One engine for all tests of a process: it takes seconds to start."""
    folder, eos_ids = folder or micro_folder(), frozenset({EOS})
    engine = open_engine(
        folder, engine_rules(), dtype="float32", vocabulary=VOCABULARY, eos_ids=eos_ids
    )
    return VllmGenerator(
        engine,
        dtype="float32",
        vocabulary=VOCABULARY,
        eos_ids=eos_ids,
        rules=engine_rules(),
    )


def open_scripted() -> ScriptedPolicy:
    """Says letters that depend on the prompt, and on the seed where it samples."""

    def say(prompt: str, request: Generate) -> str:
        draw = request.seed if request.sampling.temperature > 0 else 0
        count = (sum(request.prompt_ids) + draw) % 20
        return "x" * count + "<|end|>"

    return ScriptedPolicy(say)


HF = Writer("hf", open_hf, EOS, micro_folder)
VLLM = Writer("vllm", open_vllm, EOS, micro_folder)
SCRIPTED = Writer("scripted", open_scripted, END)


def requests(
    temperature: float, *, max_tokens: int = 12, prompts: Sequence[Sequence[int]] = PROMPTS
) -> list[Generate]:
    sampling = Sampling(temperature, 1.0, 0, max_tokens)
    return [Generate("agent", tuple(ids), sampling, 100 + n) for n, ids in enumerate(prompts)]


def continued(asked: Sequence[Generate], found: Sequence[Generation]) -> list[Generate]:
    """The requests of the next turn: what was asked, what was answered, and replies."""
    return [
        replace(one, prompt_ids=(*one.prompt_ids, *answer.ids, *(9, 5, 3, 8)[: 1 + number % 4]))
        for number, (one, answer) in enumerate(zip(asked, found, strict=True))
    ]
