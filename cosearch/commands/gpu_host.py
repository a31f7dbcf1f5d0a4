"""The doctor's checks of a host with GPUs: what its system must have before a stage is launched."""

import re
from collections.abc import Iterator
from pathlib import Path

from cosearch.commands.finding import Finding, amount
from cosearch.commands.machine import Probes
from cosearch.params.rows_file import profile_folders
from cosearch.params.settings import Settings
from cosearch.plan.outlook import Outlook

DRIVER = (580,)
"""The first driver for CUDA 13, with which torch and vLLM of constraints-gpu.txt are built (release
notes of CUDA 13.0)."""
GLIBC = (2, 34)
"""The first C library for which the wheels of constraints-gpu.txt are built (manylinux_2_34)."""
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Variables that name the network between nodes: orders travel over gloo, gradients over NCCL."""
SPANS = re.compile(r"--(hostfile|nnodes)\b")
"""An option of a launcher that starts ranks on several nodes."""


def examine_gpu_host(settings: Settings, probes: Probes, root: Path = Path()) -> Iterator[Finding]:
    """Driver, C library, temporary folder, and what a launcher over several nodes needs."""
    yield _version("NVIDIA driver", probes.driver(), DRIVER, "install a driver for CUDA 13")
    yield _version("glibc", probes.glibc(), GLIBC, "a system or container with a newer C library")
    yield from _temporary(settings, probes)
    launch = launch_of(settings.profile, root)
    if SPANS.search(launch):
        yield from _network(launch, probes)


def launch_of(profile: str, root: Path) -> str:
    """The launcher of the profile's training stages; empty without one."""
    folder = profile_folders(root).get(profile)
    text = (folder / "profile.yaml").read_text("utf-8") if folder else ""
    found = re.search(r"^launch: (.*)$", text, re.M)
    return found[1] if found else ""


def _version(name: str, found: str | None, least: tuple[int, ...], fix: str) -> Finding:
    wanted = ".".join(map(str, least))
    if found is None:
        return Finding(name, f"not found; {wanted} or newer is needed", fix)
    own = tuple(int(part) for part in re.findall(r"\d+", found))
    return Finding(name, f"{found}; {wanted} or newer is needed", None if own >= least else fix)


def _temporary(settings: Settings, probes: Probes) -> Iterator[Finding]:
    """Where weights that go by a file lie for the moment in which vLLM reads them."""
    outlook = Outlook.of(settings)
    width, samplers = settings.file.plan.memory.weight_bytes, outlook.engines.samplers
    sizes = [
        role.shape.parameters * width / 1e9
        for role in outlook.roles()
        if (rules := samplers[role.name].rules) is not None and rules.transfer == "file"
    ]
    if sizes:
        folder, free = probes.temporary()
        fix = "set TMPDIR to a folder with more space"
        yield amount(f"temporary files in {folder}", free, max(sizes), "GB", fix)


def _network(launch: str, probes: Probes) -> Iterator[Finding]:
    """Programs and variables of ranks on several nodes."""
    if launch.startswith("deepspeed") and "--launcher" not in launch:
        fix = "install pdsh on the first node, or name another launcher in `launch`"
        there = probes.program("pdsh")
        yield Finding("pdsh", "found" if there else "not found", None if there else fix)
    known = list(probes.interfaces())
    for name in INTERFACES:
        value = probes.variable(name)
        fix = f"export {name}=INTERFACE, one of {', '.join(known) or 'none'}"
        wrong = value is None or not any(one.startswith(value.strip("^=")) for one in known)
        yield Finding(name, value or "not set", fix if wrong else None)
