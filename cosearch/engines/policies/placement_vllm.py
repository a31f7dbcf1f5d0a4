"""Where vLLM runs and under which environment.

The variables by which a launcher tells a process its place among the ranks are hidden while an
engine starts: they speak of the trainers, and vLLM and torch would take them for the engine's own.
With ``TORCHELASTIC_USE_AGENT_STORE`` whoever opens a store over TCP waits for another to open it.

Environment variables that vLLM reads are set here before it is imported, and only where the user
has not set them:

* everywhere: no usage statistics, errors only in the log, worker processes that are spawned;
* without a GPU: the engine runs in this process (a child imports vLLM again, which takes longer
  than a tiny round) unless a launcher has made this process one of several, a cache of 1 GiB,
  threads that are not bound to cores (binding puts all of a process on one core), and no
  ``torch.compile``.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from cosearch.params.engines import Vllm

ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
CPU_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TORCH_COMPILE_DISABLE": "1",
}

LAUNCHED = re.compile(
    r"(TORCHELASTIC|MASTER)_.*|RANK|WORLD_SIZE|LOCAL_SIZE|CROSS_(RANK|SIZE)"
    r"|(LOCAL|GROUP|ROLE)_(RANK|WORLD_SIZE)|ROLE_NAME"
)
"""Names of the variables that torchrun and DeepSpeed's launcher set for each process."""


def prepare_environment(rules: Vllm) -> bool:
    """Set the environment variables that vLLM reads. Returns whether this machine has GPUs.

    Raises ValueError where the placement asks for GPUs that are not there.
    """
    gpus = torch.cuda.is_available()
    if rules.devices and not gpus:
        raise ValueError(f"devices {list(rules.devices)} are GPUs, and this machine shows none")
    if rules.transfer != "file":
        _check_transfer(rules, gpus)
    needed = rules.replicas * rules.tensor_parallel
    if rules.devices and len(rules.devices) != needed:
        raise ValueError(
            f"{rules.replicas} replicas x {rules.tensor_parallel} GPUs need {needed} devices, not"
            f" {list(rules.devices)}"
        )
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if rules.transfer == "ipc":  # handles of memory are no plain data; they stay on this host
        os.environ.setdefault("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")
    if not gpus:
        _prepare_for_cpu()
    return gpus


def _check_transfer(rules: Vllm, gpus: bool) -> None:
    if not gpus:
        raise ValueError(f"transfer {rules.transfer} needs GPUs, and this machine shows none: file")
    if (rules.transfer == "ipc") != rules.shared_gpus:
        raise ValueError(
            f"transfer {rules.transfer}, shared_gpus {str(rules.shared_gpus).lower()}: ipc is for"
            " samplers that share the trainers' GPUs, nccl for those with GPUs of their own"
        )


def _prepare_for_cpu() -> None:
    apart_from_ranks = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"} if "RANK" in os.environ else {}
    for name, value in (CPU_ENVIRONMENT | apart_from_ranks).items():
        os.environ.setdefault(name, value)
    if os.environ["TORCH_COMPILE_DISABLE"] == "1":
        # The variable is read when dynamo is imported, which transformers may have done.
        torch._dynamo.config.disable = True
    from llvmlite.binding import ffi

    # vLLM looks through the __dict__ of every object of every module for kernels to replace. This
    # one answers any name with a function of its library, and vLLM would take it for a dict.
    ffi.lib._fntab.setdefault("__dict__", {})


@contextmanager
def visible(devices: Sequence[int]) -> Iterator[None]:
    """Show only ``devices`` to processes that start inside."""
    name = "CUDA_VISIBLE_DEVICES"
    before = os.environ.get(name)
    if devices:
        os.environ[name] = ",".join(map(str, devices))
    try:
        yield
    finally:
        if devices:
            os.environ.pop(name)
        if devices and before is not None:
            os.environ[name] = before


@contextmanager
def apart() -> Iterator[None]:
    """Hide the launcher's variables from all that starts inside."""
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if LAUNCHED.fullmatch(name)}
    try:
        yield
    finally:
        os.environ |= hidden
