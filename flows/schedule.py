"""Decides which stage of a graph starts next: one whose predecessors are all done."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from flows.graph import Graph


@dataclass(frozen=True, slots=True)
class Schedule:
    """The state of every stage of a graph.

    ``seconds`` are the known durations of earlier runs. They only decide the order among ready
    stages. The ``fresh`` stages are done from the start. ``failed`` maps a stage to the cause, and
    ``dropped`` maps a stage that cannot run to the failed stage before it.
    """

    graph: Graph
    seconds: Mapping[str, float]
    fresh: Collection[str] = ()
    done: set[str] = field(init=False, default_factory=set)
    running: set[str] = field(init=False, default_factory=set)
    failed: dict[str, str] = field(init=False, default_factory=dict)
    dropped: dict[str, str] = field(init=False, default_factory=dict)
    _lengths: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.done.update(self.fresh)
        self._lengths.update(path_seconds(self.graph, expected(self.graph, self.seconds)))

    def ready(self) -> list[str]:
        """Stages that may start now. The start of the longest remaining path comes first."""
        found = [name for name in self.waiting() if self.graph.upstream[name] <= self.done]
        return sorted(found, key=lambda name: -self._lengths[name])

    def waiting(self) -> list[str]:
        """Stages that are neither started nor dropped nor done, in the order of the graph."""
        seen = self.done | self.running | self.failed.keys() | self.dropped.keys()
        return [name for name in self.graph.order if name not in seen]

    def start(self, name: str) -> None:
        """Record that ``name`` runs."""
        self.running.add(name)

    def finish(self, name: str, cause: str) -> None:
        """Record that ``name`` ended. An empty ``cause`` means success. After a failure all stages
        that depend on ``name`` are dropped."""
        self.running.remove(name)
        if not cause:
            self.done.add(name)
            return
        self.failed[name] = cause
        for below in self.graph.downstream({name}) - {name}:
            self.dropped.setdefault(below, name)

    def seconds_left(self, jobs: int, elapsed: Mapping[str, float]) -> float | None:
        """A lower bound of the seconds to the end with ``jobs`` stages at once, or None if no stage
        has a known duration."""
        if not self.seconds:
            return None
        rest = expected(self.graph, self.seconds)
        for name in self.graph.order:
            if name not in self.running and name not in self.waiting():
                rest[name] = 0.0
        for name, spent in elapsed.items():
            rest[name] = max(0.0, rest[name] - spent)
        longest = max(path_seconds(self.graph, rest).values(), default=0.0)
        return max(longest, sum(rest.values()) / jobs)


def expected(graph: Graph, seconds: Mapping[str, float]) -> dict[str, float]:
    """Expected seconds of every stage: its own, else the mean of its kind, else the mean of all.

    ``train@cosearch-0`` is of the kind ``train``. Without any known duration a stage takes 1.
    """
    kinds: dict[str, list[float]] = {}
    for name, value in seconds.items():
        kinds.setdefault(kind(name), []).append(value)
    every = list(seconds.values()) or [1.0]
    return {name: seconds.get(name, _mean(kinds.get(kind(name), every))) for name in graph.order}


def path_seconds(graph: Graph, seconds: Mapping[str, float]) -> dict[str, float]:
    """For each stage the seconds of the longest path that starts with it, the stage included."""
    below = dict.fromkeys(graph.order, 0.0)
    lengths = {}
    for name in reversed(graph.order):
        lengths[name] = seconds[name] + below[name]
        for before in graph.upstream[name]:
            below[before] = max(below[before], lengths[name])
    return lengths


def kind(name: str) -> str:
    """The name of a stage without its instance: ``train`` for ``train@cosearch-0``."""
    return name.split("@", 1)[0]


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values)
