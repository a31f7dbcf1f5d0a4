"""What a stage tells those who watch it. Watching changes no result; the paper knows none of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Began:
    """A stage began; ``stage`` is its name in the graph, such as ``train@cosearch-0``."""

    stage: str
    profile: str


@dataclass(frozen=True, slots=True)
class Entered:
    """A phase began, of the round that began last; a round may enter a phase again."""

    phase: str


@dataclass(frozen=True, slots=True)
class Left:
    """A phase ended; ``failed`` where something was raised in it."""

    phase: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Advanced:
    """``task`` stands at ``done`` of ``total``."""

    task: str
    done: int
    total: int
    note: str


@dataclass(frozen=True, slots=True)
class Alive:
    """Long work goes on; ``note`` says with what."""

    note: str


@dataclass(frozen=True, slots=True)
class RoundBegan:
    """Round ``number``, counted from 1, began."""

    number: int


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """Round ``number`` ended with these metrics."""

    number: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class DocumentPublished:
    """The stage wrote a document for readers: its Markdown, and where the whole of it lies."""

    title: str
    markdown: str
    place: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The stage ended; ``cause`` is why it failed, in one line, empty where it went well.
    ``stopped``: it was told to end, and goes on when it is started again."""

    cause: str
    stopped: bool = False


Event = (
    Began | Entered | Left | Advanced | Alive | RoundBegan | RoundEnded | DocumentPublished | Ended
)


class Monitor(Protocol):
    """Watches one stage. ``tell`` returns at once and never raises, whatever becomes of it."""

    def tell(self, event: Event) -> None:
        """Take note of an event. Nothing follows ``Ended``."""
        ...


@dataclass(frozen=True, slots=True)
class Monitors:
    """Any number of monitors as one."""

    parts: Sequence[Monitor] = ()

    def tell(self, event: Event) -> None:
        """Tell each of them."""
        for part in self.parts:
            part.tell(event)
