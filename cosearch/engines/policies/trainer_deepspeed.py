"""A policy's trainer over DeepSpeed: one process or many, on one machine or several.

The stage runs in the first process alone and calls this trainer like any other. The trainer passes
every call on to the other processes, which run ``serve`` only.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import torch

from cosearch.core.protocols import NotFinite
from cosearch.core.types import Sample
from cosearch.engines.policies.ranks import STOP, Order, Ranks, join
from cosearch.engines.policies.shard import Shard
from cosearch.engines.policies.step import UpdateStats
from cosearch.engines.policies.weights import checksum, in_type
from cosearch.engines.policies.zero import TrainingPlan

OPEN = "open"


class DeepSpeedTrainer:
    """Trains one model on all ranks; the first rank makes it. A trainer restored from what ``save``
    wrote makes the same steps as one that never stopped, with the same number of ranks. ``save``
    writes a folder, which must lie on a disk that all machines share."""

    def __init__(self, ranks: Ranks, plan: TrainingPlan) -> None:
        self._ranks = ranks
        self._number = ranks.enlist()
        self._tell(OPEN, plan.record())
        self._shard = Shard(ranks, plan)

    @property
    def version(self) -> int:
        """How many optimiser steps were made."""
        return self._shard.version

    def logprobs(self, samples: Sequence[Sample], temperature: float) -> list[list[float]]:
        """Log-probabilities of the trained actions, aligned with ``ids``; 0 outside the mask."""
        self._tell("logprobs", temperature, samples)
        return self._shard.logprobs(samples, temperature)

    def update(self, samples: Sequence[Sample], temperature: float) -> UpdateStats:
        """One optimiser step over ``samples``. Raises NotFinite with the batch saved."""
        self._tell("update", temperature, samples)
        return self._shard.update(samples, temperature)

    def weights(self) -> Mapping[str, torch.Tensor]:
        """All weights by name, on CPU."""
        self._tell("weights")
        return self._shard.weights()

    def checksum(self, dtype: str | None = None) -> str:
        """SHA-256 over all weights as they are, or as numbers of type ``dtype``."""
        return checksum(in_type(self.weights(), dtype))

    def save(self, path: Path) -> None:
        """Write everything that decides the next step."""
        self._tell("save", str(path))
        self._shard.save(path)

    def restore(self, path: Path) -> None:
        """Go on from what ``save`` wrote. Raises ValueError for another number of ranks."""
        self._tell("restore", str(path))
        self._shard.restore(path)

    def export(self, folder: Path) -> None:
        """Write the model (without tokenizer) as a Hugging Face folder."""
        self._tell("export", str(folder))
        self._shard.export(folder)

    def _tell(self, command: str, about: object = None, samples: Sequence[Sample] = ()) -> None:
        self._ranks.tell(Order(command, self._number, about, samples))


def serve(ranks: Ranks) -> None:
    """Carry out the first rank's orders until it says stop. Every other rank runs this.

    All ranks raise NotFinite for a step that cannot be made. The other ranks go on to the next
    order, because only the first rank decides what follows.
    """
    shards: dict[int, Shard] = {}
    while (order := ranks.hear()).command != STOP:
        with suppress(NotFinite):
            _perform(ranks, shards, order)
    ranks.leave()


def serve_first() -> bool:
    """Join the job and serve its first process. Returns False in the first process, which runs the
    stage. It joins at once too, so that the others are released if it ends without a trainer."""
    ranks = join()
    if ranks.rank == 0:
        return False
    serve(ranks)
    return True


def _perform(ranks: Ranks, shards: dict[int, Shard], order: Order) -> None:
    if order.command == OPEN:
        shards[order.trainer] = Shard(ranks, TrainingPlan.read(order.about))
        return
    shard, about = shards[order.trainer], order.about
    match order.command:
        case "logprobs":
            shard.logprobs(order.samples, about)
        case "update":
            shard.update(order.samples, about)
        case "weights":
            shard.weights()
        case "save":
            shard.save(Path(about))
        case "restore":
            shard.restore(Path(about))
        case "export":
            shard.export(Path(about))
        case other:
            raise ValueError(f"no rank knows the order {other!r}")
