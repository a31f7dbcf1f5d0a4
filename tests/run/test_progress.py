"""Plain progress lines come at a bounded rate, and always at the end of a task."""

import pytest

from cosearch.run import progress


@pytest.fixture()
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that progress sees; tests move it."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_lines_come_at_a_bounded_rate_and_always_at_the_end(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress.Progress() as shown:
        for done in range(1, 7):
            clock[0] += progress.EVERY_SECONDS / 2
            shown.show("train", done, 6, f"reward={done}")
    lines = capsys.readouterr().err.split("\n")
    assert lines == [
        "train: 1/6 reward=1",
        "train: 3/6 reward=3",
        "train: 5/6 reward=5",
        "train: 6/6 reward=6",
        "",
    ]


def test_a_pulse_tells_where_the_task_stands(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress.Progress() as shown:
        shown.pulse("train", "agent answered 8")
        clock[0] += 1
        shown.show("train", 2, 6)
        shown.pulse("train", "agent answered 9")
        clock[0] += progress.EVERY_SECONDS
        shown.pulse("train", "agent answered 7")
    assert capsys.readouterr().err.split("\n") == [
        "train: agent answered 8",
        "train: 2/6 agent answered 7",
        "",
    ]
