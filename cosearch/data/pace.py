"""How long work of many like parts will still take; shown to people, stored nowhere."""

from collections.abc import Callable


class Pace:
    """Time left, from what was done since the first call: work found finished does not count.

    ``clock`` gives seconds that never run backwards.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start: tuple[float, int] | None = None

    def left(self, done: int, total: int) -> str:
        """Such as ``2 h 05 min left``; empty while there is nothing to judge by."""
        now = self._clock()
        if self._start is None:
            self._start = (now, done)
        began, found = self._start
        if done <= found or done >= total:
            return ""
        minutes = round((now - began) / (done - found) * (total - done) / 60)
        return f"{minutes // 60} h {minutes % 60:02d} min left"
