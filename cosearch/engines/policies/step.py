"""One optimiser step, whichever trainer makes it: its rules, its loss and its statistics."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from cosearch.core.protocols import NotFinite
from cosearch.engines.policies.heads import Batch, BatchBounds
from cosearch.engines.policies.loss import LossRules, kl_to_reference, token_losses
from cosearch.params.blocks import Train


@dataclass(frozen=True, slots=True)
class OptimizerRules:
    """AdamW constants; ``warmup_updates`` raises the rate linearly from zero."""

    lr: float
    betas: tuple[float, float]
    weight_decay: float
    grad_clip: float
    warmup_updates: int
    batch_tokens: int
    logit_tokens: int

    @property
    def bounds(self) -> BatchBounds:
        """The bounds of a micro-batch."""
        return BatchBounds(self.batch_tokens, self.logit_tokens)

    @classmethod
    def of(cls, train: Train, lr: float) -> "OptimizerRules":
        """The constants of the parameters, with the learning rate of one policy."""
        return cls(
            lr,
            train.betas,
            train.weight_decay,
            train.grad_clip,
            train.warmup_updates,
            train.batch_tokens,
            train.logit_tokens,
        )


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """What one optimiser step saw: means over the trained tokens with an advantage, unless it says
    otherwise. No other token counts, whichever samples run beside it."""

    loss: float
    grad_norm: float
    entropy: float
    clip_share: float
    old_kl: float
    """Mean of old minus new log-probability."""
    max_ratio: float
    trained_tokens: int


def batch_loss(
    logprobs: torch.Tensor,
    reference: torch.Tensor | None,
    batch: Batch,
    weights: Sequence[float],
    rules: LossRules,
) -> torch.Tensor:
    """What a batch adds to the loss of its step. ``logprobs`` and those of the initial model are
    [tokens]; ``weights`` are those of all samples of the step."""
    losses = token_losses(logprobs, batch.column("old_logprobs"), batch.column("advantages"), rules)
    if reference is not None:
        losses = losses + rules.kl_coef * kl_to_reference(logprobs, reference)
    return (losses * batch.token_weights(weights)).sum()


def not_finite(what: str, version: int, batch: Batch | None, scratch: Path) -> NotFinite:
    """The error of a step that cannot be made; ``batch``, if known, is saved in ``scratch``."""
    reason = f"the {what} of update {version} is not finite"
    if batch is None:
        return NotFinite(reason, None)
    path = scratch / f"not_finite_{version}.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [asdict(sample) for sample in batch.samples]
    torch.save({"indices": list(batch.indices), "samples": rows}, path)
    return NotFinite(reason, path)


class Totals:
    """Sums over the micro-batches of one step."""

    def __init__(self) -> None:
        self.loss = self.entropy = self.clipped = self.drift = 0.0
        self.max_ratio = 1.0
        self.tokens = 0

    def add(
        self, logprobs: torch.Tensor, entropy: torch.Tensor, batch: Batch, clip_eps: float
    ) -> None:
        """Count the trained tokens of ``batch`` that have an advantage; ``loss`` is added apart."""
        live = batch.column("advantages") != 0
        if not live.any():
            return
        drift = (batch.column("old_logprobs") - logprobs)[live]
        ratio = torch.exp(-drift)
        self.entropy += float(entropy[live].sum())
        self.clipped += float(((ratio - 1).abs() > clip_eps).sum())
        self.drift += float(drift.sum())
        self.max_ratio = max(self.max_ratio, float(ratio.max()))
        self.tokens += len(ratio)

    def stats(self, grad_norm: float) -> UpdateStats:
        """The statistics of the step."""
        count = max(1, self.tokens)
        return UpdateStats(
            self.loss,
            grad_norm,
            self.entropy / count,
            self.clipped / count,
            self.drift / count,
            self.max_ratio if math.isfinite(self.max_ratio) else math.inf,
            self.tokens,
        )
