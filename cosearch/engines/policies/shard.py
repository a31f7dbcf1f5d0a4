"""One process's part in training one model over DeepSpeed, which shares the state among the ranks.

Every method is collective: all ranks call it with the same arguments. Each rank gets all samples of
a step and computes the weights of Eq. 3's sum over the whole step, before micro-batches are dealt
out. So the gradient depends neither on the size of micro-batches nor on the number of ranks.
"""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import deepspeed
import torch
from torch import nn
from torch.distributed import ReduceOp
from transformers.modeling_layers import GradientCheckpointingLayer

from cosearch.core.types import Sample
from cosearch.engines.policies.heads import Batch, Head, PickHead
from cosearch.engines.policies.loss import running, sequence_weights
from cosearch.engines.policies.memory import put_away, take_back
from cosearch.engines.policies.packing import PackedHead, rounds
from cosearch.engines.policies.ranks import Ranks
from cosearch.engines.policies.step import Totals, UpdateStats, batch_loss, not_finite
from cosearch.engines.policies.zero import PARTITIONED, TrainingPlan, configuration

TAG = "state"


class _Scored(nn.Module):
    """A model under its head, so that the whole forward pass runs inside DeepSpeed's engine."""

    def __init__(self, model: nn.Module, head: Head) -> None:
        super().__init__()
        self.model = model
        self._head = head

    def forward(self, batch: Batch, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
        return self._head(self.model, batch, temperature)


class Shard:
    """A rank's part of one trainer. ``version`` counts optimiser steps."""

    def __init__(self, ranks: Ranks, plan: TrainingPlan) -> None:
        self._ranks = ranks
        self._plan = plan
        self._head: Head = PickHead() if plan.vocabulary is None else PackedHead(plan.vocabulary)
        self._engine = self._start(learns=True)
        self._reference = self._start(learns=False) if plan.loss.kl_coef > 0 else None
        self._touched = False
        self._away = False
        self._sender: Any = None
        self.version = 0

    @torch.no_grad()
    def logprobs(self, samples: Sequence[Sample], temperature: float) -> list[list[float]]:
        """Log-probabilities of the trained actions, aligned with ``ids``; 0 outside the mask."""
        starts = [0]
        for sample in samples:
            starts.append(starts[-1] + sum(sample.loss_mask))
        found = torch.zeros(starts[-1], dtype=torch.float64)
        for batches in self._rounds(samples, range(len(samples))):
            batch, own = self._own(batches)
            logprobs, _ = self._forward(self._engine, batch, temperature)
            if not own:
                continue
            parts = logprobs.double().cpu().split([sum(s.loss_mask) for s in batch.samples])
            for index, part in zip(batch.indices, parts, strict=True):
                found[starts[index] : starts[index + 1]] = part
        values = iter(self._ranks.combined(found, ReduceOp.SUM))
        return [[next(values) if flag else 0.0 for flag in s.loss_mask] for s in samples]

    def update(self, samples: Sequence[Sample], temperature: float) -> UpdateStats:
        """One optimiser step over ``samples``; its statistics are those of the samples with an
        advantage. Raises NotFinite, on every rank, with the first offending
        batch saved; DeepSpeed then drops the gradients, so no step was made."""
        weights = sequence_weights(samples, self._plan.loss)
        live = running(samples, self._plan.loss)
        if not live:
            self.version += 1  # nothing but zeros would be added
            return Totals().stats(0.0)
        self._touched = True
        self._wake()
        dealt = self._rounds(samples, live)
        totals, worst = Totals(), math.inf
        for number, batches in enumerate(dealt):
            batch, own = self._own(batches)
            loss = self._batch_loss(batch, weights, temperature, totals if own else None)
            if not torch.isfinite(loss):
                worst = min(worst, number * self._ranks.size + self._ranks.rank)
                loss = loss * torch.nan  # so that DeepSpeed sees the fault
            self._engine.set_gradient_accumulation_boundary(number == len(dealt) - 1)
            # DeepSpeed averages over the ranks what is to be their sum.
            self._engine.backward(loss * self._ranks.size)
        self._step(dealt, worst)
        return self._stats(totals)

    def weights(self) -> dict[str, torch.Tensor]:
        """All weights by name in the first rank's memory. Other ranks get an empty mapping."""
        found = {}
        for name, tensor in self._engine.module.model.state_dict(keep_vars=True).items():
            with self._gathered(tensor):
                if self._ranks.rank == 0:
                    found[name] = tensor.detach().to("cpu", copy=True)
        return found

    def send(self, place: Mapping[str, Any], client: Any) -> int:
        """Send all weights to vLLM's workers; returns their bytes. The first call decides the
        place; only the first rank has a client."""
        from cosearch.engines.policies.transfer_vllm import Gathered, open_sender

        source = Gathered(self._engine.module.model, self._gathered)
        if self._sender is None:
            self._sender = open_sender(self._ranks.rank, place, source, client)
        self._sender.send_weights()
        self._give_back()
        return source.bytes

    def sleep(self) -> None:
        """Leave the device to the samplers, all but the weights; returns when all ranks have."""
        if self._movable and not self._away:
            put_away(self._engine, self._ranks.memory)
            self._away = True
        self._give_back()

    def _give_back(self) -> None:
        """Empty the cache of this rank's device; returns when all ranks have."""
        self._ranks.memory.empty()
        self._ranks.combined([0.0], ReduceOp.SUM)

    def save(self, folder: Path) -> None:
        """Write everything that decides the next step; every rank writes its own part."""
        self._engine.save_checkpoint(str(folder), tag=TAG)
        if self._ranks.rank == 0:
            record = {**self._shape(), "version": self.version}
            (folder / "trainer.json").write_text(json.dumps(record), "utf-8")

    def restore(self, folder: Path) -> None:
        """Go on from what ``save`` wrote. Raises ValueError for the state of another number of
        ranks, ZeRO stage or type: its parts would not fit."""
        record = json.loads((folder / "trainer.json").read_text("utf-8"))
        version = record.pop("version")
        if record != self._shape():
            raise ValueError(f"{folder} was saved with {record}, and this run has {self._shape()}")
        self._wake()
        if self._touched:  # DeepSpeed loads into fresh engines only
            self._engine.destroy()
            self._engine, self._sender = self._start(learns=True), None
        self._engine.load_checkpoint(str(folder), tag=TAG, load_lr_scheduler_states=False)
        self._touched = True
        self.version = version

    def export(self, folder: Path) -> None:
        """Write the model (without tokenizer) as a Hugging Face folder, from the first rank."""
        weights = self.weights()
        if self._ranks.rank == 0:
            self._engine.module.model.save_pretrained(folder, state_dict=weights)

    @property
    def _movable(self) -> bool:
        """Whether the states lie on the device at all."""
        return not (self._plan.zero.offload_optimizer or self._plan.zero.offload_parameters)

    def _wake(self) -> None:
        if self._away:
            take_back(self._engine, self._ranks.memory)
            self._away = False

    def _start(self, learns: bool) -> Any:
        """DeepSpeed's engine over the plan's model."""
        plan = self._plan
        model = self._head.load(plan.folder, plan.zero.dtype)
        name = model.config._attn_implementation
        logging.getLogger(__name__).info("%s: attention %s", plan.folder, name)
        scored = _Scored(model, self._head)
        if not learns and plan.zero.stage != PARTITIONED:
            return scored.to(self._ranks.device)
        config = configuration(plan, self._ranks.size)
        if plan.zero.stage == PARTITIONED:  # one parameter after another: none holds a whole model
            deepspeed.zero.Init(module=scored, config_dict_or_path=config)
        rules = plan.optimizer
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=rules.lr, betas=rules.betas, weight_decay=rules.weight_decay
        )
        engine, *_ = deepspeed.initialize(
            model=scored,
            optimizer=optimizer if learns else None,
            config=config,
            dist_init_required=False,
        )
        engine.eval()
        if learns and plan.zero.gradient_checkpointing:
            _checkpoint_gradients(model)
        return engine

    def _rounds(self, samples: Sequence[Sample], live: Sequence[int]) -> list[list[Batch]]:
        bounds = self._plan.optimizer.bounds
        return list(rounds(samples, live, self._head, bounds, self._ranks.size))

    def _own(self, batches: Sequence[Batch]) -> tuple[Batch, bool]:
        """This rank's batch of a round, and whether it is its own. A rank without a batch repeats
        one sample of the first rank and throws its gradient away, because all ranks must take part
        in every pass at ZeRO stages 2 and 3."""
        if self._ranks.rank < len(batches):
            return batches[self._ranks.rank], True
        first = batches[0]
        return Batch(first.indices[:1], first.samples[:1], first.parts), False

    def _forward(
        self, model: Any, batch: Batch, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        with self._ranks.device:  # where heads make their tensors
            found: tuple[torch.Tensor, torch.Tensor] = model(batch, temperature)
        return found

    def _batch_loss(
        self, batch: Batch, weights: Sequence[float], temperature: float, totals: Totals | None
    ) -> torch.Tensor:
        """What ``batch`` adds to the loss. It is counted in ``totals``; without them the batch is a
        repeated one, and its loss is 0."""
        reference = None
        if self._reference is not None:
            with torch.no_grad():
                reference, _ = self._forward(self._reference, batch, temperature)
        logprobs, entropy = self._forward(self._engine, batch, temperature)
        if totals is None:
            return 0.0 * logprobs.sum()
        with self._ranks.device:
            totals.add(logprobs.detach(), entropy, batch, self._plan.loss.clip_eps)
            loss = batch_loss(logprobs, reference, batch, weights, self._plan.loss)
        totals.loss += float(loss.detach())
        return loss

    def _step(self, dealt: Sequence[Sequence[Batch]], worst: float) -> None:
        """Step, unless a loss or gradient of some rank is not finite. ``worst`` is the place of
        this rank's first such batch in the order of rounds and ranks."""
        rules, engine = self._plan.optimizer, self._engine
        for group in engine.optimizer.param_groups:
            group["lr"] = rules.lr * min(1.0, (self.version + 1) / max(1, rules.warmup_updates))
        engine.step()
        (place,) = self._ranks.combined([worst], ReduceOp.MIN)
        if not engine.was_step_applied():
            what, batch = "gradient", None
            if math.isfinite(place):
                number, rank = divmod(int(place), self._ranks.size)
                what, batch = "loss", dealt[number][rank]
            saved = batch if self._ranks.rank == 0 else None
            raise not_finite(what, self.version, saved, Path(self._plan.scratch))
        self.version += 1

    def _stats(self, totals: Totals) -> UpdateStats:
        """The statistics of the step over all ranks."""
        names = ("loss", "entropy", "clipped", "drift", "tokens")
        own = [float(getattr(totals, name)) for name in names]
        for name, value in zip(names, self._ranks.combined(own, ReduceOp.SUM), strict=True):
            setattr(totals, name, value)
        totals.tokens = int(totals.tokens)
        (totals.max_ratio,) = self._ranks.combined([totals.max_ratio], ReduceOp.MAX)
        return totals.stats(float(self._engine.get_global_grad_norm()))

    def _shape(self) -> dict[str, Any]:
        stage, dtype = self._plan.zero.stage, self._plan.zero.dtype
        return {"ranks": self._ranks.size, "stage": stage, "dtype": dtype}

    def _gathered(self, tensor: torch.Tensor) -> Any:
        partitioned = hasattr(tensor, "ds_id")
        return deepspeed.zero.GatheredParameters([tensor]) if partitioned else nullcontext()


def _checkpoint_gradients(model: Any) -> None:
    """Recompute activations in the backward pass. Layers only do so in training mode, which their
    parts are kept out of: dropout stays off."""
    model.gradient_checkpointing_enable({"use_reentrant": False})
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.training = True
