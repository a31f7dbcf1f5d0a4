"""Who watches a stage, as the parameters and the environment say."""

import os
import platform
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from cosearch.run.events import Monitor, Monitors


def monitor_of(journal: Path, *, scalars: Path | None, say: Callable[[str], None]) -> Monitor:
    """Who watches a stage: a journal always, scalars where ``scalars`` names their folder, Prefect
    where ``PREFECT_API_URL`` is set. ``say`` prints a warning."""
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
    """A short name of this folder on this machine."""
    return sha256(f"{platform.node()}:{Path.cwd()}".encode()).hexdigest()[:8]
