"""Sequences of one batch end to end in a single row, so that no padding is computed.

Position ids begin again with every sequence, and attention reads the borders off them: flash
attention turns them into sequence lengths, and for other kernels transformers masks the tokens of
all other sequences. So the code is the same with flash attention and without it. Without flash
attention the cost is quadratic in the length of the whole row; ``batch_tokens`` bounds that.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers.utils.import_utils import is_flash_attn_2_available

from cosearch.core.types import Sample
from cosearch.engines.loading import load_causal_lm
from cosearch.engines.policies.heads import (
    Batch,
    Head,
    batches_at,
    check_head,
    token_logprobs,
)
from cosearch.engines.policies.logits import logits_at

FLASH = "flash_attention_2"


def takes_flash(dtype: str) -> bool:
    """Whether flash attention is installed here and can compute in ``dtype``."""
    return dtype == "bfloat16" and is_flash_attn_2_available()


class PackedHead:
    """Tokens of a causal language model, like ``CausalHead``, from packed rows."""

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary

    def load(self, folder: str | Path, dtype: str) -> Any:
        """A causal language model, with flash attention where this machine has it. Raises
        ValueError for one that this head reads otherwise than it computes; that is looked at on the
        CPU, where there is no flash attention."""
        model = load_causal_lm(folder, dtype)
        check_head(self, model, folder, self._vocabulary)
        if takes_flash(dtype):
            model.set_attn_implementation(FLASH)
        return model

    def shape(self, sample: Sample) -> tuple[int, int]:
        """Rows of one token each, so that a batch is bounded by the sum of its lengths."""
        return len(sample.ids), 1

    def __call__(
        self, model: Any, batch: Batch, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies [tokens] of the tokens under the mask.

        Raises ValueError for a sample that trains its first token, which nothing predicts.
        """
        if any(sample.loss_mask[0] for sample in batch.samples):
            raise ValueError("the loss mask of a sample covers its first token")
        ids = torch.tensor([[token for sample in batch.samples for token in sample.ids]])
        positions = torch.tensor([[p for s in batch.samples for p in range(len(s.ids))]])
        trained = torch.tensor([flag for s in batch.samples for flag in s.loss_mask]).bool()
        before = trained.roll(-1)[None]
        logits = logits_at(model, before, self._vocabulary, input_ids=ids, position_ids=positions)
        return token_logprobs(logits, ids[0][trained], temperature)


def rounds(
    samples: Sequence[Sample], live: Sequence[int], head: Head, batch_tokens: int, ranks: int
) -> Iterator[list[Batch]]:
    """The micro-batches of one step, dealt out: one round holds the batch of every rank, the last
    round perhaps of the first ones only. ``live`` are the places of the samples that run."""
    batches = list(batches_at(samples, live, head, batch_tokens))
    for start in range(0, len(batches), ranks):
        yield batches[start : start + ranks]
