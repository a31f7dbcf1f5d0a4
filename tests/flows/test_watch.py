import io
from dataclasses import dataclass, field

from flows.schedule import Schedule
from flows.watch import EVERY_SECONDS, Watch
from tests.flows.graphs import DIAMOND


@dataclass
class Clock:
    """Stands still until it is moved."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Shown:
    """A watch on a schedule, and what it printed."""

    schedule: Schedule
    out: io.StringIO = field(default_factory=io.StringIO)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.watch = Watch(2, lambda name: f"logs/{name}.log", self.out, self.clock)

    def at(self, seconds: float) -> list[str]:
        """The lines of one look at that time."""
        self.clock.now = seconds
        self.out.seek(0)
        self.out.truncate()
        self.watch(self.schedule)
        return self.out.getvalue().splitlines()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_tell_starts_and_endings() -> None:
    shown = Shown(Schedule(DIAMOND, {}))
    shown.schedule.start("top")
    shown.schedule.start("alone")
    assert shown.at(0) == [
        "start   top, log in logs/top.log",
        "start   alone, log in logs/alone.log",
    ]
    shown.schedule.finish("top", "")
    shown.schedule.finish("alone", "out of memory")
    assert shown.at(3725) == [
        "done    top, 1:02:05",
        "failed  alone after 1:02:05: out of memory",
    ]


def test_silence_never_lasts_while_stages_run() -> None:
    shown = Shown(Schedule(DIAMOND, {"top": 50.0}))
    shown.schedule.start("top")
    shown.at(0)
    assert shown.at(EVERY_SECONDS - 1) == []
    assert shown.at(EVERY_SECONDS) == [
        "        0/5 done, running top 20 s, elapsed 20 s, about 0:02:10 left"
    ]
    assert shown.at(EVERY_SECONDS + 1) == []


def test_a_terminal_has_one_live_line() -> None:
    shown = Shown(Schedule(DIAMOND, {}), out=Terminal())
    shown.schedule.start("top")
    assert shown.at(1)[-1].endswith("\x1b[K0/5 done, running top 0 s, elapsed 1 s")
    assert shown.out.getvalue()[-1] != "\n"
