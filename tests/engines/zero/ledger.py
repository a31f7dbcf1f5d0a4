"""Devices that keep a ledger: one for each rank, shared by the rank and a sampler over all of them.

As with torch and vLLM, what a trainer has freed stays reserved until it empties its cache, and
whoever asks for more than the device has left is refused.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from cosearch.core.types import Generation, Sample
from cosearch.engines.policies.memory import DeviceMemory

CAPACITY = 10**7
"""Bytes of a device, all of which the sampler takes while it is awake."""
SAMPLER = "sampler"


class Ledger(DeviceMemory):
    """The device of a rank. Tensors that come and go are copied, so nothing may point at the old
    ones."""

    def __init__(self, folder: Path, rank: int) -> None:
        super().__init__(torch.device("cpu"))
        self._folder, self._rank = folder, rank
        self._live = self._reserved = 0
        write(folder, rank, 0)

    def leave(self, tensors: Iterable[torch.Tensor]) -> None:
        self._live -= self._copied(tensors)

    def enter(self, tensors: Iterable[torch.Tensor]) -> None:
        self._live += self._copied(tensors)
        self._reserved = max(self._reserved, self._live)
        refuse(self._reserved + read(self._folder, SAMPLER), f"rank {self._rank}")
        write(self._folder, self._rank, self._reserved)

    def empty(self) -> None:
        self._reserved = self._live = max(0, self._live)
        write(self._folder, self._rank, self._reserved)

    @staticmethod
    def _copied(tensors: Iterable[torch.Tensor]) -> int:
        size = 0
        for tensor in tensors:
            tensor.data = tensor.data.clone()
            size += tensor.nbytes
        return size


class DeviceSampler:
    """A sampler over the devices of all ranks, which computes nothing."""

    def __init__(self, folder: Path, ranks: int) -> None:
        self._folder, self._ranks = folder, ranks
        self.weights = 0
        self.shares_device, self.direct = True, False

    def __call__(self, requests: Sequence[Any]) -> Sequence[Generation]:
        self._wake()
        return []

    def load_weights(self, weights: Mapping[str, Any], version: int) -> int:
        self._wake()
        self.weights = version
        return sum(value.nbytes for value in weights.values())

    def probe(self, measure: Callable[[Sequence[Sample]], list[list[float]]]) -> None:
        """It has nothing to compare."""

    def sleep(self, *, discard: bool) -> None:
        write(self._folder, SAMPLER, 0)

    def close(self) -> None:
        """There is nothing to end."""

    def _wake(self) -> None:
        for rank in range(self._ranks):
            refuse(CAPACITY + read(self._folder, rank), f"the sampler on device {rank}")
        write(self._folder, SAMPLER, CAPACITY)


def refuse(size: int, who: str) -> None:
    if size > CAPACITY:
        raise MemoryError(f"{who}: {size} bytes of {CAPACITY}")


def read(folder: Path, who: object) -> int:
    path = folder / f"ledger_{who}"
    return int(path.read_text()) if path.exists() else 0


def write(folder: Path, who: object, size: int) -> None:
    aside = folder / f".ledger_{who}"
    aside.write_text(str(size))
    aside.rename(folder / f"ledger_{who}")
