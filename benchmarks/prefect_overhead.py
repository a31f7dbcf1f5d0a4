"""What watching costs: CPU and wall time of a training process with a Prefect server and without.

    python benchmarks/prefect_overhead.py --row cosearch-0

Runs one training alternately without and with the server that PREFECT_API_URL names (`make ui`), in
a project whose index is up to date, and prints the median ratio of the pairs. Every run must leave
the same bytes. The CPU time is that of the training process alone, not that of the server.
"""

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

URL = "PREFECT_API_URL"


def main() -> None:
    """Run the pairs and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="tiny")
    parser.add_argument("--row", required=True, help="training of params.yaml")
    parser.add_argument("--output", help="folder it writes, compared after each run")
    parser.add_argument("--pairs", type=int, default=5)
    chosen = parser.parse_args()
    if URL not in os.environ:
        sys.exit(f"error: {URL} is not set; start a server with `make ui`")
    command = [sys.executable, "-m", "stages.train"]
    command += ["--profile", chosen.profile, "--row", chosen.row]
    without = {name: value for name, value in os.environ.items() if name != URL}
    cpu, wall, left = [], [], set()
    for number in range(chosen.pairs):
        plain, watched = measure(command, without), measure(command, os.environ)
        cpu.append(watched[0] / plain[0])
        wall.append(watched[1] / plain[1])
        left.add(digest(Path(chosen.output)) if chosen.output else "")
        print(
            f"pair {number + 1}: CPU {plain[0]:.2f} s, watched {watched[0]:.2f} s;"
            f" wall {plain[1]:.2f} s, watched {watched[1]:.2f} s",
            flush=True,
        )
    print(f"CPU ratio: median {statistics.median(cpu):.3f} of {[round(r, 3) for r in cpu]}")
    print(f"wall ratio: median {statistics.median(wall):.3f} of {[round(r, 3) for r in wall]}")
    if len(left) > 1:
        sys.exit("error: the runs left different bytes")


def measure(command: list[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """CPU and wall seconds of one run."""
    start = time.perf_counter()
    process = subprocess.Popen(command, env=dict(environment), stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"error: {' '.join(command)} ended with code {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start


def digest(folder: Path) -> str:
    """One hash over all files of a folder."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return total.hexdigest()


if __name__ == "__main__":
    main()
