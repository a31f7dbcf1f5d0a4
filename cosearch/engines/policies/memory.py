"""What a trainer frees on its device while samplers use it, and takes back before its next update.

DeepSpeed's ``offload_states`` moves an optimiser's states of stage 3 for its own fused Adam alone,
which needs a compiler. So they are moved here: the copy of the weights in float32, and both moments
of AdamW. DeepSpeed drops the gradients' buffers.
"""

import gc
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from deepspeed.runtime.zero.offload_config import OffloadStateTypeEnum

BUFFERS = (OffloadStateTypeEnum.lp_grads, OffloadStateTypeEnum.contiguous_grad_buffer)
STATES = (OffloadStateTypeEnum.hp_params, OffloadStateTypeEnum.optim_states)


class DeviceMemory:
    """The memory of a rank's device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def leave(self, tensors: Iterable[torch.Tensor]) -> None:
        """Move ``tensors`` to host memory in place."""
        for tensor in tensors:
            tensor.data = tensor.data.to("cpu")

    def enter(self, tensors: Iterable[torch.Tensor]) -> None:
        """Move ``tensors`` to the device in place."""
        for tensor in tensors:
            tensor.data = tensor.data.to(self._device)

    def empty(self) -> None:
        """Give back what torch keeps for later allocations: no other process can use it."""
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()


def put_away(engine: Any, memory: DeviceMemory) -> None:
    """Move the states of DeepSpeed's ``engine`` off the device; its weights stay."""
    if engine.zero_optimization_partition_weights():
        engine.offload_states(BUFFERS, pin_memory=False)
        memory.leave(_states(engine.optimizer))
    else:
        engine.offload_states(STATES, pin_memory=False)
    memory.empty()


def take_back(engine: Any, memory: DeviceMemory) -> None:
    """Undo ``put_away``."""
    engine.reload_states()
    if engine.zero_optimization_partition_weights():
        memory.enter(_states(engine.optimizer))


def _states(optimizer: Any) -> Iterator[torch.Tensor]:
    """The float32 weights and the moments of AdamW; a count of steps always lies in host memory."""
    yield from optimizer.fp32_partitioned_groups_flat
    for state in optimizer.optimizer.state.values():
        yield from (value for value in state.values() if torch.is_tensor(value) and value.dim())
