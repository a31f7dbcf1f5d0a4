"""The look at a model's numbers when it is opened: alone and in a batch they must be the same.

A sampler pads prompts on the left and keeps a cache, a trainer pads on the right or packs, and each
sees the model through its own code. Not every family bears all of that, and a difference shows in
no result but a worse one. So each way is held against the plain model on two short sequences.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from cosearch.core.types import Sample
from cosearch.engines.loading import at_least_float32

LENGTHS = (7, 12)
"""Tokens of the sequences; they differ, so that a batch of both is padded."""
GIVEN = 3
"""Tokens at the front of each sequence that nobody wrote."""
TOLERANCES = {torch.float64: 1e-3, torch.float32: 1e-3, torch.bfloat16: 0.1}
"""Nats between two ways to one log-probability, in the mean: rounding stays well below, and the
smallest fault that is known (the scale of an output layer left out) is 0.2."""


def sequences(vocabulary: int) -> list[list[int]]:
    """Token ids of the look, always the same."""
    draw = random.Random(0)
    return [draw.choices(range(vocabulary), k=length) for length in LENGTHS]


def written(ids: Sequence[int], given: int = GIVEN) -> Sample:
    """A sample whose tokens after the first ``given`` are trained."""
    blank = [0.0] * len(ids)
    return Sample(ids, [0] * given + [1] * (len(ids) - given), blank, blank)


@torch.inference_mode()
def alone(model: Any, sample: Sample, vocabulary: int) -> torch.Tensor:
    """Log-probabilities [trained tokens] of a sample, from the plain model without a batch."""
    ids = torch.tensor([list(sample.ids)], device=model.device)
    logits = at_least_float32(model(input_ids=ids, use_cache=False).logits[0, :-1, :vocabulary])
    logprobs = torch.log_softmax(logits, dim=-1).gather(1, ids[0, 1:, None])[:, 0].cpu()
    return logprobs[torch.tensor(sample.loss_mask)[1:].bool()]


def check_vocabulary(folder: str | Path, model: Any, vocabulary: int) -> None:
    """Raises ValueError where the tokenizer knows more tokens than the model has rows."""
    rows = min(len(layer.weight) for layer in _layers(model))
    if rows < vocabulary:
        raise ValueError(
            f"{folder}: the tokenizer has {vocabulary} tokens and the model rows for {rows}; put"
            " the tokenizer there that the model was trained with"
        )


def check_numbers(
    folder: str | Path,
    model: Any,
    samples: Sequence[Sample],
    vocabulary: int,
    batched: torch.Tensor,
) -> None:
    """Raises ValueError where ``batched``, log-probabilities of the trained tokens of ``samples``
    one after another, are not those of the plain model."""
    own = torch.cat([alone(model, sample, vocabulary) for sample in samples])
    gap = float((batched.cpu() - own).abs().mean())
    if not gap <= TOLERANCES[model.dtype]:
        raise ValueError(
            f"{folder}: {type(model).__name__} gives other log-probabilities in a batch than alone,"
            f" by {gap:.2g} nats; name a model of another family (docs/models.md lists them)"
        )


def _layers(model: Any) -> list[Any]:
    return [model.get_input_embeddings(), model.get_output_embeddings()]
