"""Weights that go from the trainers' devices to vLLM's without a file, by vLLM's own engines.

``ipc``: a trainer and a replica share a GPU, and the replica copies the tensors from the trainer's
memory. ``nccl``: the replicas have GPUs of their own, and the first trainer sends to all of them.
(NCCL takes no two processes on one GPU.) vLLM calls the two ends of both a trainer's engine and a
worker's engine.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from vllm.distributed.weight_transfer.base import ParamMeta, WeightSource
from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo
from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo
from vllm.distributed.weight_transfer.packed_tensor import DEFAULT_PACKED_BUFFER_SIZE_BYTES
from vllm.utils.network_utils import get_ip, get_open_port


class Workers(Protocol):
    """What asks all workers of an engine."""

    def call(self, method: str, **values: Any) -> None:
        """Call ``method`` of every worker of every replica."""


class Client:
    """The names under which a trainer's engine speaks to the workers."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Tell every worker how tensors will come."""
        self._workers.call("init_weight_transfer_engine", init_info=init_info)

    def start_weight_update(self) -> None:
        """Make every worker ready."""
        self._workers.call("start_weight_update")

    def update_weights(self, update_info: Any) -> None:
        """Let every worker take what has been sent."""
        self._workers.call("update_weights", update_info=update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Let every worker put its layers in order."""
        self._workers.call("finish_weight_update")


class Gathered(WeightSource):  # type: ignore[misc]
    """The tensors of a rank's model, each whole while it is read."""

    def __init__(self, model: torch.nn.Module, whole: Any) -> None:
        self._model = model
        self._whole = whole

    def metadata(self) -> list[ParamMeta]:
        """Name, type and whole shape of every tensor; nothing is gathered."""
        return [
            ParamMeta(name, tensor.dtype, tuple(getattr(tensor, "ds_shape", tensor.shape)))
            for name, tensor in self._tensors().items()
        ]

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, tensor in self._tensors().items():
            whole: AbstractContextManager[Any] = self._whole(tensor)
            with whole:
                yield name, tensor.detach().clone()

    @property
    def bytes(self) -> int:
        """Of all tensors."""
        return sum(_size(one) for one in self.metadata())

    @property
    def largest(self) -> int:
        """Bytes of the largest tensor."""
        return max(_size(one) for one in self.metadata())

    def _tensors(self) -> Mapping[str, torch.Tensor]:
        return self._model.state_dict(keep_vars=True)


def _size(tensor: ParamMeta) -> int:
    return int(torch.Size(tensor.shape).numel() * tensor.dtype.itemsize)


def address(backend: str, workers: int) -> dict[str, Any]:
    """What all ranks must know to send to ``workers``, as JSON can hold it."""
    if backend == "ipc":
        return {"backend": backend}
    place = {"master_address": get_ip(), "master_port": get_open_port()}
    return {"backend": backend, **place, "world_size": workers + 1}


def open_sender(rank: int, place: Mapping[str, Any], source: Gathered, client: Any) -> Any:
    """A rank's end of the way. Only the first rank has a client; all ranks call this."""
    values = {key: value for key, value in place.items() if key != "backend"}
    buffer = max(DEFAULT_PACKED_BUFFER_SIZE_BYTES, source.largest)
    kind = KINDS[place["backend"]]
    info = kind(**values, rank=rank, packed=True, packed_buffer_size_bytes=buffer)
    return WeightTransferTrainerFactory.trainer_init(info, client=client, source=source)


KINDS: Mapping[str, Any] = {"ipc": IPCTrainerInitInfo, "nccl": NCCLTrainerInitInfo}
