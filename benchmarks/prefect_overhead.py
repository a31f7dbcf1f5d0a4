"""What watching costs: CPU and wall time of a training process with a Prefect server and without.

    python benchmarks/prefect_overhead.py --row cosearch-0

Runs one training without and with the server that PREFECT_API_URL names (`make ui`), in a project
whose index is up to date, and prints the median ratio of the pairs; which of a pair comes first
alternates, so that what else the machine does falls on both. Every run must leave the same bytes.
The CPU time is that of the training process alone, as the system counts it, not that of the server.
"""

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

URL = "PREFECT_API_URL"
MOST = 1.05
"""Largest allowed ratio of CPU times, with the server over without."""


class Run(NamedTuple):
    """CPU and wall seconds of a training, and the number of its warnings."""

    cpu: float
    wall: float
    warnings: int


def main() -> None:
    """Run the pairs and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="tiny")
    parser.add_argument("--row", required=True, help="training of params.yaml")
    parser.add_argument("--output", help="folder it writes, compared after each run")
    parser.add_argument("--pairs", type=int, default=5)
    chosen = parser.parse_args()
    require_server()
    command = [sys.executable, "-m", "stages.train"]
    command += ["--profile", chosen.profile, "--row", chosen.row]
    without = {name: value for name, value in os.environ.items() if name != URL}
    cpu, wall, left = [], [], set()
    for number in range(chosen.pairs):
        both: dict[bool, Run] = {}
        for watched in (False, True) if number % 2 == 0 else (True, False):
            both[watched] = measure(command, os.environ if watched else without)
            left.add(digest(Path(chosen.output)) if chosen.output else "")
        plain, seen = both[False], both[True]
        cpu.append(seen.cpu / plain.cpu)
        wall.append(seen.wall / plain.wall)
        print(
            f"pair {number + 1}: CPU {plain.cpu:.2f} s, watched {seen.cpu:.2f} s;"
            f" wall {plain.wall:.2f} s, watched {seen.wall:.2f} s; {seen.warnings} warnings",
            flush=True,
        )
        require_server()
    print(f"CPU ratio: median {statistics.median(cpu):.3f} of {[round(r, 3) for r in cpu]}")
    print(f"wall ratio: median {statistics.median(wall):.3f} of {[round(r, 3) for r in wall]}")
    if len(left) > 1:
        sys.exit("error: the runs left different bytes")
    if statistics.median(cpu) > MOST:
        sys.exit(f"error: watching costs more than {MOST - 1:.0%}")


def require_server() -> None:
    """Exit with an error if no server answers, because then the ratio would measure nothing."""
    try:
        with urllib.request.urlopen(f"{os.environ[URL]}/health", timeout=60) as answer:
            well = answer.status == 200
    except (OSError, KeyError):
        well = False
    if not well:
        sys.exit(f"error: no server at {URL}={os.environ.get(URL, '')}; start one with `make ui`")


def measure(command: list[str], environment: Mapping[str, str]) -> Run:
    """Run a command to its end. The times are those of its process and of the children it waited
    for."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(command, env=dict(environment), stderr=told)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        lines = told.read().splitlines()
    if process.returncode:
        sys.exit(f"error: {' '.join(command)}: code {process.returncode}: {lines[-1:]}")
    warnings = sum(line.startswith("warning:") for line in lines)
    return Run(usage.ru_utime + usage.ru_stime, wall, warnings)


def digest(folder: Path) -> str:
    """One hash over all files of a folder."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return total.hexdigest()


if __name__ == "__main__":
    main()
