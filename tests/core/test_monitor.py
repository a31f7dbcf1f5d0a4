"""Several monitors are one."""

from cosearch.run.events import Began, Ended, Entered, Event, Left, Monitors, RoundBegan


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[Event] = []

    def tell(self, event: Event) -> None:
        self.heard.append(event)


def test_every_monitor_hears_every_event_in_order() -> None:
    events = [
        Began("train@a-0", "tiny"),
        RoundBegan(1),
        Entered("rollout"),
        Left("rollout", failed=False),
        Ended(""),
    ]
    first, second = Listener(), Listener()
    for event in events:
        Monitors((first, second)).tell(event)
    assert first.heard == second.heard == events


def test_nobody_need_listen() -> None:
    Monitors().tell(Ended(""))
