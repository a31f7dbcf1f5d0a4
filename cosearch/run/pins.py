"""Which kernels the numeric libraries of a stage may choose, and where equal bytes can be expected.

Numeric libraries choose kernels by the processor, and two kernels add in another order. Pins are
environment variables that the libraries read when they are loaded, so a stage that lacks one of
them starts again with it. docs/reproducibility.md says how they were chosen.
"""

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cosearch.params.blocks import Runtime
from cosearch.params.settings import Settings

_AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "FAISS_SIMD_LEVEL": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
PINS: Mapping[int, Mapping[str, str]] = {
    0: {},
    1: _AVX2 | {"MKL_CBWR": "AVX2"},
    2: _AVX2 | {"MKL_CBWR": "COMPATIBLE"},
}
"""``runtime.portable`` -> the variables of the environment under which all stages run."""
NEEDED = frozenset({"avx2", "fma"})
"""Instructions that every pinned kernel uses."""
CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Processor:
    """What libraries look at when they choose kernels. ``maker`` is the architecture where a
    processor does not name one; ``model`` holds family and number beside the printed name."""

    maker: str
    model: str
    features: frozenset[str]

    @property
    def pinnable(self) -> bool:
        """Whether it has the instructions of the pinned kernels."""
        return self.features >= NEEDED


def this_processor(cpuinfo: Path = CPUINFO) -> Processor:
    """The processor of this machine, as Linux tells it; its architecture alone elsewhere."""
    text = cpuinfo.read_text("utf-8") if cpuinfo.is_file() else ""
    told: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        told.setdefault(name.strip(), value.strip())
    maker = told.get("vendor_id") or platform.machine()
    numbers = [told.get(name, "") for name in ("cpu family", "model")]
    model = " ".join(filter(None, [told.get("model name", ""), "/".join(filter(None, numbers))]))
    return Processor(maker, model or platform.processor(), frozenset(told.get("flags", "").split()))


def hold_pins(settings: Settings) -> None:
    """Start this process again, unless it runs under the pins of the profile and no others.

    Raises ValueError, which names the parameter, where this processor cannot do that.
    """
    portable = settings.section(Runtime).portable
    wanted = PINS[portable]
    names = {name for pins in PINS.values() for name in pins}
    if wanted and not (processor := this_processor()).pinnable:
        raise ValueError(
            f"profiles.{settings.profile}.runtime.portable: {portable} needs an x86-64 processor"
            f" with AVX2 and FMA, and this is {processor.maker} {processor.model}; set it to 0, and"
            " expect other bytes"
        )
    if {name: os.environ[name] for name in names if name in os.environ} != wanted:
        kept = {name: value for name, value in os.environ.items() if name not in names}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**kept, **wanted})
