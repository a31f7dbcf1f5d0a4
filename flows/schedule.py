"""Which stage of a graph starts next: a stage is ready as soon as what it waits for is done."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from flows.graph import Graph


@dataclass(frozen=True, slots=True)
class Schedule:
    """Where every stage of a graph stands.

    ``seconds`` says how long stages took before, where known; it decides only the order among ready
    stages. ``fresh`` stages are done from the start. A stage below a failed one is ``dropped``.
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
        """Stages that may start now; the head of the longest remaining path comes first."""
        found = [name for name in self.waiting() if self.graph.upstream[name] <= self.done]
        return sorted(found, key=lambda name: -self._lengths[name])

    def waiting(self) -> list[str]:
        """Stages that have not been started or dropped, in the graph's order."""
        seen = self.done | self.running | self.failed.keys() | self.dropped.keys()
        return [name for name in self.graph.order if name not in seen]

    def start(self, name: str) -> None:
        """``name`` runs."""
        self.running.add(name)

    def finish(self, name: str, cause: str) -> None:
        """``name`` ended; an empty ``cause`` means well, else everything below it is dropped."""
        self.running.remove(name)
        if not cause:
            self.done.add(name)
            return
        self.failed[name] = cause
        for below in self.graph.downstream({name}) - {name}:
            self.dropped.setdefault(below, name)

    def seconds_left(self, jobs: int, elapsed: Mapping[str, float]) -> float | None:
        """At least so long to the end with ``jobs`` at once; None where nothing was ever timed."""
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
    """Seconds of every stage: its own, else the mean of its kind (``train@cosearch-0`` is a
    ``train``), else the mean of all; 1 where nothing is known."""
    kinds: dict[str, list[float]] = {}
    for name, value in seconds.items():
        kinds.setdefault(kind(name), []).append(value)
    every = list(seconds.values()) or [1.0]
    return {name: seconds.get(name, _mean(kinds.get(kind(name), every))) for name in graph.order}


def path_seconds(graph: Graph, seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of the longest path that starts with each stage, the stage included."""
    below = dict.fromkeys(graph.order, 0.0)
    lengths = {}
    for name in reversed(graph.order):
        lengths[name] = seconds[name] + below[name]
        for before in graph.upstream[name]:
            below[before] = max(below[before], lengths[name])
    return lengths


def kind(name: str) -> str:
    """The stage's name without its place among the instances."""
    return name.split("@", 1)[0]


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values)
