"""What a stage tells its monitors while it runs.

Monitors never influence the results of a stage. The paper does not describe them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Began:
    """A stage began. ``stage`` is its name in the graph, such as ``train@cosearch-0``."""

    stage: str
    profile: str


@dataclass(frozen=True, slots=True)
class Entered:
    """A phase of the current round began. A round may enter the same phase more than once."""

    phase: str


@dataclass(frozen=True, slots=True)
class Left:
    """A phase ended. ``failed`` is True if an exception ended it."""

    phase: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Advanced:
    """``task`` has finished ``done`` of ``total`` parts."""

    task: str
    done: int
    total: int
    note: str


@dataclass(frozen=True, slots=True)
class Alive:
    """The stage is still working. ``note`` says on what."""

    note: str


@dataclass(frozen=True, slots=True)
class RoundBegan:
    """Round ``number`` began. Rounds are counted from 1."""

    number: int


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """Round ``number`` ended with these metrics."""

    number: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TrainingDiverged:
    """The training stopped in round ``number``, and ``reason`` names the measure and its bound.
    The stage goes on and publishes the models of the round before."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class DocumentPublished:
    """The stage wrote a document for readers. ``place`` is the path of its Markdown file."""

    title: str
    markdown: str
    place: str


@dataclass(frozen=True, slots=True)
class TablePublished:
    """The stage has a table for readers: its rows, column -> value, which all have the same
    columns."""

    title: str
    rows: Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Ended:
    """The stage ended. ``cause`` is the failure in one line, or empty after a success.

    ``stopped`` is True if a signal or the user ended the stage. It continues from its state when
    it is started again.
    """

    cause: str
    stopped: bool = False


Event = (
    Began
    | Entered
    | Left
    | Advanced
    | Alive
    | RoundBegan
    | RoundEnded
    | TrainingDiverged
    | DocumentPublished
    | TablePublished
    | Ended
)


class Monitor(Protocol):
    """Watches one stage. ``tell`` returns at once and never raises, even if the delivery fails."""

    def tell(self, event: Event) -> None:
        """Receive an event. ``Ended`` is the last one."""
        ...


@dataclass(frozen=True, slots=True)
class Monitors:
    """Passes every event to a number of monitors."""

    parts: Sequence[Monitor] = ()

    def tell(self, event: Event) -> None:
        """Pass the event to each monitor, in order."""
        for part in self.parts:
            part.tell(event)
