"""A policy's trainer in plain torch: AdamW over the clipped surrogate, one process.

The head decides whether the policy writes tokens or picks candidates.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path

import torch

from cosearch.core.types import Sample
from cosearch.engines.policies.heads import Batch, Head, batches_at, micro_batches
from cosearch.engines.policies.loss import LossRules, running, sequence_weights
from cosearch.engines.policies.step import (
    OptimizerRules,
    Totals,
    UpdateStats,
    batch_loss,
    not_finite,
)
from cosearch.engines.policies.weights import checksum


class TorchTrainer:
    """Trains one model. ``version`` counts optimiser steps. State is exact: a trainer
    restored from what ``save`` wrote makes the same steps as one that was never stopped."""

    def __init__(
        self,
        folder: str | Path,
        *,
        head: Head,
        dtype: str,
        rules: OptimizerRules,
        loss: LossRules,
        scratch: Path,
    ) -> None:
        self._head = head
        self._model = head.load(folder, dtype)
        self._reference = deepcopy(self._model) if loss.kl_coef > 0 else None
        self._rules = rules
        self._loss = loss
        self._scratch = scratch
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(),
            lr=rules.lr,
            betas=rules.betas,
            weight_decay=rules.weight_decay,
        )
        self.version = 0

    @torch.no_grad()
    def logprobs(self, samples: Sequence[Sample], temperature: float) -> list[list[float]]:
        """Log-probabilities of the trained actions, aligned with ``ids``; 0 outside the mask."""
        found: dict[int, list[float]] = {}
        for batch in micro_batches(samples, self._head, self._rules.bounds):
            logprobs, _ = self._head(self._model, batch, temperature)
            values = iter(logprobs.tolist())
            for index, sample in zip(batch.indices, batch.samples, strict=True):
                found[index] = [next(values) if flag else 0.0 for flag in sample.loss_mask]
        return [found[index] for index in range(len(samples))]

    def update(self, samples: Sequence[Sample], temperature: float) -> UpdateStats:
        """One optimiser step over ``samples``. Raises NotFinite with the batch saved."""
        weights = sequence_weights(samples, self._loss)
        self._optimizer.zero_grad(set_to_none=True)
        totals = Totals()
        live = running(samples, self._loss)
        for batch in batches_at(samples, live, self._head, self._rules.bounds):
            loss = self._batch_loss(batch, weights, temperature, totals)
            if not torch.isfinite(loss):
                raise not_finite("loss", self.version, batch, self._scratch)
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._rules.grad_clip)
        if not torch.isfinite(norm):
            raise not_finite("gradient", self.version, None, self._scratch)
        for group in self._optimizer.param_groups:
            group["lr"] = self._rules.lr * self._warmup()
        self._optimizer.step()
        self.version += 1
        return totals.stats(float(norm))

    def weights(self) -> Mapping[str, torch.Tensor]:
        """All weights by name, for the hand-over to a sampler."""
        state: Mapping[str, torch.Tensor] = self._model.state_dict()
        return state

    def send(self, backend: str, client: object, workers: int) -> int:
        """Raises ValueError, because this trainer's weights lie in host memory."""
        raise ValueError(f"train.engine torch sends no weights by {backend}: set transfer to file")

    def sleep(self) -> None:
        """Do nothing, because no sampler shares this trainer's device."""

    def checksum(self) -> str:
        """SHA-256 over all weights."""
        return checksum(self._model.state_dict())

    def save(self, path: Path) -> None:
        """Write everything that decides the next step."""
        state = {
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "version": self.version,
        }
        torch.save(state, path)

    def restore(self, path: Path) -> None:
        """Go on from what ``save`` wrote."""
        state = torch.load(path, weights_only=True)
        self._model.load_state_dict(state["model"], strict=True)
        self._optimizer.load_state_dict(state["optimizer"])
        self.version = state["version"]

    def export(self, folder: Path) -> None:
        """Write the model (without tokenizer) as a Hugging Face folder."""
        self._model.save_pretrained(folder)

    def _warmup(self) -> float:
        return min(1.0, (self.version + 1) / max(1, self._rules.warmup_updates))

    def _batch_loss(
        self, batch: Batch, weights: Sequence[float], temperature: float, totals: Totals
    ) -> torch.Tensor:
        logprobs, entropy = self._head(self._model, batch, temperature)
        reference = None
        if self._reference is not None:
            with torch.no_grad():
                reference, _ = self._head(self._reference, batch, temperature)
        totals.add(logprobs.detach(), entropy, batch, self._loss.clip_eps)
        loss = batch_loss(logprobs, reference, batch, weights, self._loss)
        totals.loss += float(loss.detach())
        return loss
