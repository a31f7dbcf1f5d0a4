"""What the doctor asks of a machine, and the answers of this one. Tests describe others."""

import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cosearch.plan.layout import GIB
from cosearch.run.pins import Processor, this_processor


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU. ``memory`` is in GiB."""

    name: str
    memory: float


class Probes(Protocol):
    """Questions about a machine."""

    def python(self) -> tuple[int, int]:
        """Major and minor version of Python."""

    def version(self, package: str) -> str | None:
        """Version of an installed package, or None."""

    def cards(self) -> Sequence[Card]:
        """All GPUs of the machine."""

    def cores(self) -> int:
        """Number of CPU cores that this process may use."""

    def processor(self) -> Processor:
        """What numeric libraries look at when they choose kernels."""

    def memory(self) -> float:
        """Host memory in GiB."""

    def disk(self) -> float:
        """Free disk space in GB at the place of the outputs."""

    def variable(self, name: str) -> str | None:
        """Value of an environment variable, or None."""

    def temporary(self) -> tuple[str, float]:
        """The folder for temporary files, and its free space in GB."""

    def program(self, name: str) -> bool:
        """Whether the shell finds a program."""

    def interfaces(self) -> Sequence[str]:
        """Names of the network interfaces."""

    def driver(self) -> str | None:
        """Version of NVIDIA's driver, or None."""

    def glibc(self) -> str | None:
        """Version of the GNU C library, or None under another one."""


@dataclass(frozen=True, slots=True)
class RealProbes:
    """Answers for this machine."""

    def python(self) -> tuple[int, int]:
        """Version of the running interpreter."""
        return sys.version_info[:2]

    def version(self, package: str) -> str | None:
        """Version from the package's metadata. Imports nothing."""
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None

    def cards(self) -> list[Card]:
        """GPUs that nvidia-smi lists."""
        return read_cards(ask_nvidia("name,memory.total"))

    def cores(self) -> int:
        """Number of CPU cores that this process may use."""
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

    def processor(self) -> Processor:
        """The processor that runs this process."""
        return this_processor()

    def memory(self) -> float:
        """Memory of the machine, or the limit of the control group if that is lower, in GiB."""
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limit = Path("/sys/fs/cgroup/memory.max")
        text = limit.read_text("utf-8").strip() if limit.is_file() else "max"
        return min(pages, int(text) if text.isdigit() else pages) / GIB

    def disk(self) -> float:
        """Free space of the disk with the working folder, in GB."""
        return shutil.disk_usage(".").free / 1e9

    def variable(self, name: str) -> str | None:
        """Value in the environment of this process, or None."""
        return os.environ.get(name)

    def temporary(self) -> tuple[str, float]:
        """Where Python puts temporary files."""
        folder = tempfile.gettempdir()
        return folder, shutil.disk_usage(folder).free / 1e9

    def program(self, name: str) -> bool:
        """Whether PATH has it."""
        return shutil.which(name) is not None

    def interfaces(self) -> list[str]:
        """All interfaces, without the one of this host to itself."""
        return [name for _, name in socket.if_nameindex() if name != "lo"]

    def driver(self) -> str | None:
        """The driver of the first GPU."""
        lines = ask_nvidia("driver_version").splitlines()
        return lines[0].strip() if lines else None

    def glibc(self) -> str | None:
        """The library that this interpreter is linked with."""
        name, version = platform.libc_ver()
        return version if name == "glibc" else None


def ask_nvidia(query: str) -> str:
    """What nvidia-smi says of every GPU, a line each. Empty if it is missing or fails."""
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def read_cards(text: str) -> list[Card]:
    """Parse the ``name, MiB`` lines of nvidia-smi."""
    rows = [line.rpartition(",") for line in text.splitlines() if "," in line]
    return [Card(name.strip(), float(memory) / 1024) for name, _, memory in rows]


def real_probes() -> Probes:
    """Probes that ask this machine."""
    return RealProbes()
