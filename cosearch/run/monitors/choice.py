"""Opens the monitors that the parameters and the environment ask for."""

import os
import platform
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from cosearch.run.events import Monitor, Monitors


def monitor_of(journal: Path, *, scalars: Path | None, say: Callable[[str], None]) -> Monitor:
    """All monitors of a stage as one.

    A stage always has a journal. It writes TensorBoard scalars if ``scalars`` names their folder,
    and reports to Prefect if ``PREFECT_API_URL`` is set. ``say`` prints a warning.
    """
    from cosearch.run.monitors.journal import Journal

    parts: list[Monitor] = [Journal(journal)]
    if scalars is not None:
        from cosearch.run.monitors.scalars import Scalars

        parts.append(Scalars(scalars))
    if os.environ.get("PREFECT_API_URL"):
        from cosearch.run.monitors.prefect import PrefectMonitor

        parts.append(PrefectMonitor(os.environ, _workspace(), say))
    return Monitors(parts)


def _workspace() -> str:
    """A short name for the current folder on this machine: 8 hexadecimal digits."""
    return sha256(f"{platform.node()}:{Path.cwd()}".encode()).hexdigest()[:8]
