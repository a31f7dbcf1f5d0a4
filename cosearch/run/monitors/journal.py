"""A stage's events as JSON lines, for scripts and for looking back."""

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
    """Appends a line for each event to ``path``: its kind, the time in seconds, its fields."""

    path: Path
    clock: Callable[[], float] = time.time

    def tell(self, event: Event) -> None:
        """Write the line. A disk that is full costs lines, not the run."""
        if isinstance(event, Alive):  # many a minute; the lease holds the last
            return
        kind = KINDS.get(type(event), type(event).__name__)
        row = {"time": round(self.clock(), 3), "event": kind, **asdict(event)}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
        except OSError:
            return
