"""The processes (ranks) of one training job. The first rank runs the stage and owns rollouts,
records and files; the others wait for its orders, and all ranks carry out each order together.

Orders travel as tensors over gloo and not over the channel of the gradients, because a rollout may
take hours between two orders, and a GPU that waits in NCCL is busy all that time. An order is JSON
and numbers, so no rank unpickles data of another one.
"""

import atexit
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import islice
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from cosearch.core.types import Sample
from cosearch.engines.policies.memory import DeviceMemory

PATIENCE = timedelta(days=30)
"""How long a rank waits for the next order."""
STOP = "stop"


@dataclass(frozen=True, slots=True)
class Order:
    """One command to every rank. ``trainer`` is the number of the trainer that must act. ``about``
    is the command's argument, as JSON can hold it."""

    command: str
    trainer: int
    about: Any = None
    samples: Sequence[Sample] = ()


class Ranks:
    """One process's view of the job: its own rank, the number of ranks, and its device."""

    def __init__(self, rank: int, size: int, device: torch.device) -> None:
        self.rank = rank
        self.size = size
        self.device = device
        self.memory = DeviceMemory(device)
        self._orders = dist.new_group(backend="gloo", timeout=PATIENCE)
        self._open = True
        self._trainers = 0
        if rank == 0:
            atexit.register(self.stop)

    def enlist(self) -> int:
        """The number of the next trainer. Only the first rank calls this."""
        self._trainers += 1
        return self._trainers

    def tell(self, order: Order) -> None:
        """Send ``order`` to all other ranks. Only the first rank calls this."""
        if self.size == 1:
            return
        ints, floats = flat(order.samples)
        groups = [sample.group for sample in order.samples]
        head = {**_head(order), "ints": len(ints), "floats": len(floats), "groups": groups}
        text = torch.frombuffer(bytearray(json.dumps(head).encode()), dtype=torch.uint8)
        for part in (torch.tensor([len(text)]), text, ints, floats):
            self._pass_on(part)

    def hear(self) -> Order:
        """Wait for the next order. All ranks but the first call this."""
        size = self._pass_on(torch.zeros(1, dtype=torch.long))
        text = self._pass_on(torch.zeros(int(size), dtype=torch.uint8))
        head = json.loads(bytes(text.tolist()))
        ints = self._pass_on(torch.zeros(head.pop("ints"), dtype=torch.long))
        floats = self._pass_on(torch.zeros(head.pop("floats"), dtype=torch.float64))
        samples = samples_of(ints.tolist(), floats.tolist(), head.pop("groups"))
        return Order(**head, samples=samples)

    def _pass_on(self, part: torch.Tensor) -> torch.Tensor:
        if len(part):
            dist.broadcast(part, 0, group=self._orders)
        return part

    def combined(
        self, values: torch.Tensor | Sequence[float], operation: dist.ReduceOp.RedOpType
    ) -> list[float]:
        """``values`` of all ranks under ``operation``, on every rank."""
        found = torch.as_tensor(values, dtype=torch.float64)  # one type on all ranks
        dist.all_reduce(found, operation, group=self._orders)
        result: list[float] = found.tolist()
        return result

    def stop(self) -> None:
        """Release the other ranks and leave the job. Only the first rank calls this, at the
        latest when its process exits."""
        if self._open:
            self.tell(Order(STOP, 0))
            self.leave()

    def leave(self) -> None:
        """Leave the job."""
        self._open = False
        atexit.unregister(self.stop)
        if dist.is_initialized():  # vLLM may have ended it already, see ``join``
            dist.destroy_process_group()


@cache
def join() -> Ranks:
    """Join the job of the launcher that started this process. Without a launcher, this process
    becomes a job of one rank.

    On a CPU, gloo carries the gradients and DeepSpeed compiles none of its own operators.
    """
    import deepspeed
    import deepspeed.ops

    cuda = deepspeed.get_accelerator().device_name() == "cuda"
    if not cuda:
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    local = int(os.environ.setdefault("LOCAL_RANK", "0"))  # DeepSpeed reads it from there
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    backend = "nccl" if cuda else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    elif not dist.is_initialized():  # vLLM's engine on a CPU is a job of one in this process, too
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
    deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, verbose=False)
    return Ranks(dist.get_rank(), dist.get_world_size(), device)


def _head(order: Order) -> dict[str, Any]:
    return {"command": order.command, "trainer": order.trainer, "about": order.about}


def flat(samples: Sequence[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples as two columns of numbers; ``samples_of`` reads them back."""
    ints: list[int] = []
    floats: list[float] = []
    for sample in samples:
        ints += [len(sample.ids), len(sample.inputs), *sample.ids, *sample.loss_mask]
        for row in sample.inputs:
            ints += [len(row), *row]
        floats += [*sample.old_logprobs, *sample.advantages]
    return torch.tensor(ints, dtype=torch.long), torch.tensor(floats, dtype=torch.float64)


def samples_of(ints: Iterable[int], floats: Iterable[float], groups: Sequence[str]) -> list[Sample]:
    """The samples of ``flat``'s columns and their groups."""
    numbers, values = iter(ints), iter(floats)
    found = []
    for group in groups:
        length, rows = islice(numbers, 2)
        ids, mask = (list(islice(numbers, length)) for _ in range(2))
        inputs = tuple(tuple(islice(numbers, next(numbers))) for _ in range(rows))
        old, advantages = (list(islice(values, length)) for _ in range(2))
        found.append(Sample(ids, mask, old, advantages, inputs, group))
    return found
