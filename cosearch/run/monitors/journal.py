"""Writes the events of a stage as JSON lines, for scripts and for later analysis."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from cosearch.run.events import Alive, DocumentPublished, Event

KINDS: Mapping[type, str] = {DocumentPublished: "Published"}
"""Names of events in the file, where they differ from those of their classes."""


@dataclass(frozen=True, slots=True)
class Journal:
    """Appends one line per event to ``path``: the time in epoch seconds, the kind, the fields."""

    path: Path
    clock: Callable[[], float] = time.time

    def tell(self, event: Event) -> None:
        """Write the line. If the disk is full, the line is lost and the stage continues."""
        if isinstance(event, Alive):  # there are many per minute, and the lease keeps the last one
            return
        kind = KINDS.get(type(event), type(event).__name__)
        row = {"time": round(self.clock(), 3), "event": kind, **asdict(event)}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
        except OSError:
            return
