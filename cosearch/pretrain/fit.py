"""Base training of the tiny decoders: small Qwen2 models that learn from scripted rows.

Muon updates the matrices, AdamW the other parameters. The loss counts completions only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.nn import functional

from cosearch.pretrain.traces import TraceRow

BatchT = TypeVar("BatchT")


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Size of a decoder, about 0.7 M parameters. Samplers support no heads smaller than 32."""

    hidden_size: int = 128
    layers: int = 3
    heads: int = 4
    feed_forward: int = 256
    max_length: int = 1024


@dataclass(frozen=True, slots=True)
class FitRecipe:
    """Optimisation of one model. The learning rate rises, stays constant, and falls to
    ``floor``."""

    steps: int
    batch: int
    learning_rate: float
    warmup: int = 50
    decay: float = 0.4
    """Share of the steps over which the rate falls."""
    floor: float = 0.05
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    grad_clip: float = 1.0


def new_model(shape: ModelShape, vocabulary: int, *, pad: int, eos: int) -> Any:
    """A randomly initialised ``Qwen2ForCausalLM`` with untied embeddings."""
    from transformers import Qwen2ForCausalLM

    build: Any = Qwen2ForCausalLM
    return build(_config(shape, vocabulary, pad, eos))


def new_scorer(shape: ModelShape, vocabulary: int, *, pad: int, eos: int) -> Any:
    """A randomly initialised ``Qwen2ForSequenceClassification`` with one label.

    It scores a text at the last token that is no padding, on whichever side the padding is.
    """
    from transformers import Qwen2ForSequenceClassification

    build: Any = Qwen2ForSequenceClassification
    return build(_config(shape, vocabulary, pad, eos, num_labels=1))


def _config(shape: ModelShape, vocabulary: int, pad: int, eos: int, **more: int) -> Any:
    from transformers import Qwen2Config

    build: Any = Qwen2Config
    return build(
        vocab_size=vocabulary,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=shape.max_length,
        tie_word_embeddings=False,
        pad_token_id=pad,
        eos_token_id=eos,
        bos_token_id=None,
        **more,
    )


def fit(
    model: Any,
    batches: Iterator[BatchT],
    recipe: FitRecipe,
    on_step: Callable[[int, float, float], None],
    loss_of: Callable[[Any, BatchT], tuple[torch.Tensor, float]],
) -> None:
    """Train ``model`` in place.

    ``loss_of`` returns loss and accuracy of a batch. ``on_step`` receives step, loss and accuracy.
    """
    optimizers = _optimizers(model, recipe)
    model.train()
    for step in range(recipe.steps):
        loss, accuracy = loss_of(model, next(batches))
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.grad_clip)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = recipe.learning_rate * _rate(step, recipe)
            optimizer.step()
            optimizer.zero_grad()
        on_step(step, float(loss.detach()), accuracy)
    model.eval()


def _rate(step: int, recipe: FitRecipe) -> float:
    """Factor of the learning rate at ``step``."""
    fall = (1 - step / recipe.steps) / recipe.decay
    return min(1.0, (step + 1) / recipe.warmup) * max(recipe.floor, min(1.0, fall))


_NOT_INNER = ("embed", "lm_head", "score")


def _optimizers(model: Any, recipe: FitRecipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices between the embeddings, AdamW for everything else."""
    inner = [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.ndim == 2 and not any(part in name for part in _NOT_INNER)
    ]
    chosen = {id(parameter) for parameter in inner}
    outer = [parameter for parameter in model.parameters() if id(parameter) not in chosen]
    muon = torch.optim.Muon(
        inner,
        lr=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    adamw = torch.optim.AdamW(outer, lr=recipe.learning_rate, betas=recipe.betas, weight_decay=0.0)
    return [muon, adamw]


def weighted_loss(model: Any, rows: Sequence[TraceRow]) -> tuple[torch.Tensor, float]:
    """Weighted mean of the negative log-likelihood, and the accuracy at the largest weights."""
    width = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    weights = torch.zeros(len(rows), width)
    for place, row in enumerate(rows):
        ids[place, width - len(row.ids) :] = torch.tensor(row.ids)
        weights[place, width - len(row.ids) :] = torch.tensor(row.weights)
    lengths = torch.tensor([len(row.ids) for row in rows])
    mask = (torch.arange(width) >= width - lengths[:, None]).long()
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    first = int(weights.sum(0).nonzero()[0])
    logits = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        logits_to_keep=width - first + 1,
    ).logits[:, :-1]
    targets, weights = ids[:, first:], weights[:, first:]
    losses = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    heavy = weights == weights.max()
    hits = (logits.detach().argmax(-1) == targets)[heavy]
    return (losses * weights).sum() / weights.sum(), float(hits.float().mean())
