"""Estimates the remaining time of work in many equal parts. It is shown to users, never stored."""

from collections.abc import Callable


class Pace:
    """Estimates the remaining time from the parts that were done since the first call.

    Parts that an earlier run has done do not count. ``clock`` returns seconds and never goes back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start: tuple[float, int] | None = None

    def left(self, done: int, total: int) -> str:
        """For example ``2 h 05 min left``. Empty before the first progress and at the end."""
        now = self._clock()
        if self._start is None:
            self._start = (now, done)
        began, found = self._start
        if done <= found or done >= total:
            return ""
        minutes = round((now - began) / (done - found) * (total - done) / 60)
        return f"{minutes // 60} h {minutes % 60:02d} min left"
