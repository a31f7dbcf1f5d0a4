import threading
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.drive import drive
from flows.graph import build_graph
from flows.schedule import Schedule
from tests.flows.graphs import ancestors, graphs


@dataclass
class Recorder:
    """Records the stages that it should run, without running them. ``failing`` stages fail."""

    failing: set[str] = field(default_factory=set)
    events: list[tuple[str, str]] = field(default_factory=list)
    stopped: bool = False

    def run(self, stage: str) -> str:
        self.events.append(("start", stage))
        self.events.append(("end", stage))
        return "broke" if stage in self.failing else ""

    def stop(self) -> None:
        self.stopped = True


@given(graphs(), st.integers(1, 3), st.data())
def test_threads_keep_the_rules(graph, jobs, data) -> None:
    failing = data.draw(st.sets(st.sampled_from(graph.order))) if graph.order else set()
    runner, schedule = Recorder(failing), Schedule(graph, {})
    drive(schedule, runner, jobs, lambda _: None)
    starts = [name for event, name in runner.events if event == "start"]
    for name in starts:
        ended = {done for event, done in runner.events[: runner.events.index(("start", name))]
                 if event == "end"}  # fmt: skip
        assert ancestors(graph, name) <= ended
    running = 0
    for event, _ in runner.events:
        running += 1 if event == "start" else -1
        assert running <= jobs
    assert sorted(starts) == sorted(n for n in graph.order if not ancestors(graph, n) & failing)
    assert not runner.stopped


def test_independent_stages_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2)

    @dataclass
    class Meeting(Recorder):
        def run(self, stage: str) -> str:
            meeting.wait(timeout=60)
            return super().run(stage)

    schedule = Schedule(build_graph(["a", "b"], []), {})
    drive(schedule, Meeting(), 2, lambda _: None)
    assert schedule.done == {"a", "b"}


def test_whatever_is_raised_stops_the_runner_first() -> None:
    def refuse(schedule: Schedule) -> None:
        raise KeyboardInterrupt

    runner = Recorder()
    with pytest.raises(KeyboardInterrupt):
        drive(Schedule(build_graph(["a", "b"], [("a", "b")]), {}), runner, 1, refuse)
    assert runner.stopped
    assert ("start", "b") not in runner.events
