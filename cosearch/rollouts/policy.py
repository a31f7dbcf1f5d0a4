"""One role of the system: its text codec, its sampler, and its trainer if it learns.

A frozen ranker is a policy without a trainer; a shared backbone is one policy under both roles.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cosearch.core.protocols import Codec
from cosearch.core.types import Generation, Sample


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

    def __call__(self, requests: Sequence[Any]) -> Sequence[Generation]:
        """One generation per request, in order."""

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Take over all weights, which are version ``version``, rounded to ``dtype``."""

    def checksum(self) -> str:
        """Hash of the weights in use."""

    def sleep(self) -> None:
        """Free the memory of a device that trainers use too; the next request takes it again."""

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

    def checksum(self, dtype: str | None = None) -> str:
        """Hash of the weights as they are, or as numbers of type ``dtype``: a sampler of that type
        which holds the same weights has the same hash."""

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

    def hand_over(self) -> None:
        """Give the trainer's weights to the sampler, whose type may be narrower. Raises
        RuntimeError if they did not arrive."""
        if self.trainer is None:
            raise RuntimeError("a frozen policy has no weights to hand over")
        self.sampler.load_weights(self.trainer.weights(), self.trainer.version)
        if self.sampler.checksum() != self.trainer.checksum(self.sampler.dtype):
            raise RuntimeError(
                f"the sampler holds stale weights after update {self.trainer.version}"
            )


@contextmanager
def serving(policies: Mapping[str, Policy]) -> Iterator[None]:
    """Close every sampler when the block ends, also when it ends by an exception."""
    try:
        yield
    finally:
        for sampler in _samplers(policies):
            sampler.close()


def give_way(policies: Mapping[str, Policy]) -> None:
    """Let the samplers free the device memory that the trainers need now."""
    for sampler in _samplers(policies):
        sampler.sleep()


def _samplers(policies: Mapping[str, Policy]) -> list[Sampler]:
    """Each sampler once, as roles may share a policy."""
    return list({id(policy.sampler): policy.sampler for policy in policies.values()}.values())
