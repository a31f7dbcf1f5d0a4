"""Opens the monitors that the parameters and the environment ask for."""

import os
import platform
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from cosearch.run.events import Monitor, Monitors


def monitor_of(
    journal: Path, *, trackers: Sequence[str], folder: Path, say: Callable[[str], None]
) -> Monitor:
    """All monitors of a stage as one.

    A stage always has a journal. ``trackers`` get the metrics of its rounds, and keep in ``folder``
    what they keep on this disk. A stage reports to Prefect if ``PREFECT_API_URL`` is set. ``say``
    prints a warning.

    Raises ValueError if the package of a tracker is not installed.
    """
    from cosearch.run.monitors.journal import Journal

    parts: list[Monitor] = [Journal(journal)]
    if trackers:
        from cosearch.run.monitors.scalars import Scalars

        parts += [Scalars(tracker, folder, say) for tracker in trackers]
    if os.environ.get("PREFECT_API_URL"):
        from cosearch.run.monitors.prefect import PrefectMonitor

        parts.append(PrefectMonitor(os.environ, _workspace(), say))
    return Monitors(parts)


def _workspace() -> str:
    """A short name for the current folder on this machine: 8 hexadecimal digits."""
    return sha256(f"{platform.node()}:{Path.cwd()}".encode()).hexdigest()[:8]
