"""The two kinds of policies, micro-sized, as the contract suites take them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosearch.core.protocols import Choose, Generate
from cosearch.core.types import Generation, Sample, Sampling
from cosearch.engines.policies.generator_hf import HfGenerator
from cosearch.engines.policies.heads import CausalHead, Head, PickHead
from cosearch.engines.policies.loss import LossRules
from cosearch.engines.policies.ranker_cross_encoder import CrossEncoder
from cosearch.engines.policies.step import OptimizerRules
from cosearch.engines.policies.trainer_torch import TorchTrainer
from tests.micro import (
    EOS,
    VOCABULARY,
    pairs,
    pick_samples,
    samples,
    save_causal_lm,
    save_scorer,
)

LOSS = LossRules(0.2, "sum_per_sequence", None, 0.0, 16)
RULES = OptimizerRules(1e-3, (0.9, 0.95), 0.0, 1e9, 0, 4096, 4096)
PROMPTS = [(5, 6, 7), (5, 6, 7), (9, 3, 11, 30, 2, 8), (20,), (4, 4)]


@dataclass(frozen=True)
class Kind:
    """A kind of policy: its model folder, samples, sampler, head and requests."""

    name: str
    save: Callable[..., Path]
    samples: Callable[..., list[Sample]]
    open_sampler: Callable[..., Any]
    head: Head
    requests: Callable[[float], list[Any]]
    sample_of: Callable[[Any, Generation], Sample]

    def trainer(
        self,
        folder: Path,
        *,
        rules: OptimizerRules = RULES,
        loss: LossRules = LOSS,
        dtype: str = "float32",
        scratch: Path = Path("unused"),
    ) -> TorchTrainer:
        return TorchTrainer(
            folder, head=self.head, dtype=dtype, rules=rules, loss=loss, scratch=scratch
        )


def _generator(folder: Path, batch_tokens: int = 4096, dtype: str = "float32") -> HfGenerator:
    return HfGenerator(
        folder,
        vocabulary=VOCABULARY,
        eos_ids=frozenset({EOS}),
        batch_tokens=batch_tokens,
        dtype=dtype,
    )


def _scorer(folder: Path, batch_tokens: int = 4096, dtype: str = "float32") -> CrossEncoder:
    return CrossEncoder(folder, batch_tokens=batch_tokens, dtype=dtype)


def _prompts(temperature: float) -> list[Generate]:
    sampling = Sampling(temperature, 1.0, 0, 12)
    return [Generate("agent", ids, sampling, 100 + n) for n, ids in enumerate(PROMPTS)]


def _lists(temperature: float) -> list[Choose]:
    sampling = Sampling(temperature, 1.0, 0, 3)
    sizes = (6, 6, 3, 2, 1)
    return [
        Choose("ranker", pairs(size), min(3, size), sampling, 100 + n)
        for n, size in enumerate(sizes)
    ]


def _written(request: Generate, found: Generation) -> Sample:
    ids = (*request.prompt_ids, *found.ids)
    mask = (0,) * len(request.prompt_ids) + (1,) * len(found.ids)
    return _blank(ids, mask)


def _picked(request: Choose, found: Generation) -> Sample:
    return _blank(found.ids, (1,) * len(found.ids), request.inputs)


def _blank(
    ids: Sequence[int], mask: Sequence[int], inputs: tuple[tuple[int, ...], ...] = ()
) -> Sample:
    zeros = (0.0,) * len(ids)
    return Sample(ids, mask, zeros, zeros, inputs)


CAUSAL = Kind(
    "causal", save_causal_lm, samples, _generator, CausalHead(VOCABULARY), _prompts, _written
)
SCORER = Kind("scorer", save_scorer, pick_samples, _scorer, PickHead(), _lists, _picked)
KINDS = (CAUSAL, SCORER)
