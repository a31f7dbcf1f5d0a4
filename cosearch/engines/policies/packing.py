"""Sequences of one batch end to end in a single row, so that no padding is computed.

Position ids begin again with every sequence, and attention is told where sequences end. With flash
attention that is all; elsewhere the attention of this package takes its place. Neither has a mask.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers.utils.import_utils import is_flash_attn_2_available

from cosearch.core.types import Sample
from cosearch.engines.loading import load_causal_lm
from cosearch.engines.policies.attention import PACKED, borders
from cosearch.engines.policies.heads import Batch, BatchBounds, Head, batches_at, check_head
from cosearch.engines.policies.logits import Scores, scores_at

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
        self.check(model, folder)
        model.set_attn_implementation(FLASH if takes_flash(dtype) else PACKED)
        return model

    def check(self, model: Any, folder: str | Path) -> None:
        """Raises ValueError where packed rows give other log-probabilities than ``model`` does with
        the attention that it has."""
        check_head(self._looked_at, model, folder, self._vocabulary)

    def _looked_at(self, model: Any, batch: Batch, temperature: float) -> Scores:
        """A packed row with the attention of this package; the model keeps its own."""
        own = model.config._attn_implementation
        model.set_attn_implementation(PACKED)
        try:
            return self(model, batch, temperature)
        finally:
            model.set_attn_implementation(own)

    def shape(self, sample: Sample) -> tuple[int, int]:
        """Rows of one token each, so that a batch is bounded by the sum of its lengths."""
        return len(sample.ids), 1

    def __call__(self, model: Any, batch: Batch, temperature: float) -> Scores:
        """Log-probabilities and entropies [tokens] of the tokens under the mask.

        Raises ValueError for a sample that trains its first token, which nothing predicts.
        """
        if any(sample.loss_mask[0] for sample in batch.samples):
            raise ValueError("the loss mask of a sample covers its first token")
        ids = torch.tensor([[token for sample in batch.samples for token in sample.ids]])
        positions = torch.tensor([[p for s in batch.samples for p in range(len(s.ids))]])
        trained = torch.tensor([flag for s in batch.samples for flag in s.loss_mask]).bool()
        return scores_at(
            model,
            trained.roll(-1)[None],
            ids[0][trained],
            vocabulary=self._vocabulary,
            temperature=temperature,
            parts=batch.parts,
            input_ids=ids,
            position_ids=positions,
            **borders([len(sample.ids) for sample in batch.samples]),
        )


def rounds(
    samples: Sequence[Sample], live: Sequence[int], head: Head, bounds: BatchBounds, ranks: int
) -> Iterator[list[Batch]]:
    """The micro-batches of one step, dealt out: one round holds the batch of every rank, the last
    round perhaps of the first ones only. ``live`` are the places of the samples that run. All of a
    round have as many parts, because the ranks gather an output layer that they share for each."""
    batches = list(batches_at(samples, live, head, bounds))
    for start in range(0, len(batches), ranks):
        dealt = batches[start : start + ranks]
        parts = max(batch.parts for batch in dealt)
        yield [Batch(batch.indices, batch.samples, parts) for batch in dealt]
