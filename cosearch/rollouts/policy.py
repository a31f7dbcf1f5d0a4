"""One role of the system: its text codec, its sampler, and its trainer if it learns.

A frozen ranker is a policy without a trainer; a shared backbone is one policy under both roles.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cosearch.core.protocols import Codec
from cosearch.core.types import Generation, Sample

GREEDY = 0.0
"""The temperature of a probe."""


class ModelCodec(Codec, Protocol):
    """A codec that belongs to a model folder."""

    def save(self, folder: Path) -> None:
        """Write tokenizer and chat template beside exported weights."""


class Sampler(Protocol):
    """The engine that answers a role's requests: ``Generate`` if the policy writes, ``Choose`` if
    it scores and picks. ``weights`` is the version of its weights: how many updates they had.
    ``dtype`` is the type in which it holds them."""

    weights: int
    dtype: str
    shares_device: bool
    """Whether trainers need the device while this sampler sleeps."""
    direct: bool
    """Whether weights come from the trainer's devices, by ``Trainer.send``, and not by name."""

    def __call__(self, requests: Sequence[Any]) -> Sequence[Generation]:
        """One generation per request, in order."""

    def load_weights(self, weights: Any, version: int) -> int:
        """Take over all weights, by name or from a trainer, as version ``version``, rounded to
        ``dtype``; returns the bytes that were moved. Version 0 comes first. Raises RuntimeError if
        they did not arrive, to the last bit."""

    def probe(self, measure: Callable[[Sequence[Sample]], list[list[float]]]) -> None:
        """Compare with what the trainer of the same weights measures, if the sampler computes
        otherwise than the trainer. Raises RuntimeError if they differ too much."""

    def sleep(self, *, discard: bool) -> None:
        """Free the memory of a device that trainers use too; the next request takes it again. With
        ``discard`` new weights come before that request, so the present ones may be lost."""

    def close(self) -> None:
        """End the engine and its processes."""


class Trainer(Protocol):
    """Turns samples into optimiser steps. ``version`` is how many it has made."""

    version: int

    def logprobs(self, samples: Sequence[Sample], temperature: float) -> list[list[float]]:
        """Log-probabilities aligned with each sample's ids, 0 outside its loss mask."""

    def update(self, samples: Sequence[Sample], temperature: float) -> Any:
        """One optimiser step; returns its statistics, a dataclass."""

    def weights(self) -> Mapping[str, Any]:
        """All weights by name."""

    def send(self, backend: str, client: Any, workers: int) -> int:
        """Send all weights from the devices; returns their bytes. Raises ValueError where it
        cannot."""

    def sleep(self) -> None:
        """Free the memory of devices that samplers use too, all but the weights' own. Updates take
        it again."""

    def save(self, path: Path) -> None:
        """Write everything that the next step depends on."""

    def restore(self, path: Path) -> None:
        """Go on from what ``save`` wrote."""

    def export(self, folder: Path) -> None:
        """Write the model as a folder without tokenizer."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A role's codec, sampler and trainer. ``temperature`` is that of training rollouts and of the
    trainer's log-probabilities."""

    codec: ModelCodec
    sampler: Sampler
    trainer: Trainer | None
    temperature: float

    def export(self, folder: Path) -> None:
        """Write the trained model with its tokenizer."""
        if self.trainer is None:
            raise RuntimeError("a frozen policy has no model of its own to export")
        self.trainer.export(folder)
        self.codec.save(folder)

    def hand_over(self) -> int:
        """Give the trainer's weights to the sampler; returns the bytes that were moved. Raises
        RuntimeError if they did not arrive."""
        trainer = self.trainer
        if trainer is None:
            raise RuntimeError("a frozen policy has no weights to hand over")
        weights = trainer if self.sampler.direct else trainer.weights()
        moved = self.sampler.load_weights(weights, trainer.version)
        self.sampler.probe(lambda samples: trainer.logprobs(samples, GREEDY))
        return moved


@contextmanager
def serving(policies: Mapping[str, Policy]) -> Iterator[None]:
    """Close every sampler when the block ends, also when it ends by an exception."""
    try:
        yield
    finally:
        for policy in _each(policies):
            policy.sampler.close()


def give_way(policies: Mapping[str, Policy]) -> None:
    """Let the samplers free the device memory that the trainers need now. The samplers of policies
    that learn keep no weights: ``hand_over`` brings new ones."""
    for policy in _each(policies):
        policy.sampler.sleep(discard=policy.trainer is not None)


def hand_over(policies: Mapping[str, Policy]) -> int:
    """Give the weights of every trainer to its sampler; returns the bytes that were moved.

    All trainers leave the devices before the first sampler wakes, and once more afterwards: a probe
    leaves a cache behind. Raises RuntimeError if weights did not arrive.
    """
    _rest(policies)
    moved = sum(policy.hand_over() for policy in _each(policies) if policy.trainer is not None)
    _rest(policies)
    return moved


def _rest(policies: Mapping[str, Policy]) -> None:
    """Let the trainers leave their devices, if any sampler uses these too."""
    if not any(policy.sampler.shares_device for policy in _each(policies)):
        return
    for policy in _each(policies):
        if policy.trainer is not None:
            policy.trainer.sleep()


def _each(policies: Mapping[str, Policy]) -> list[Policy]:
    """Each policy once, as roles may share one."""
    return list({id(policy): policy for policy in policies.values()}.values())
