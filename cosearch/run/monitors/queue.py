"""A bounded queue between work that never waits and a service that may be slow, locked or gone."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
WARN_SECONDS = 60.0
"""Warnings come at most this often."""
RETRY_SECONDS = (0.2, 1.0)
"""A delivery that fails is tried again after these: a locked database is free soon."""
PAUSE_SECONDS = 2.0
"""After a delivery that failed for good nothing is delivered for so long."""


class Courier(Generic[Item]):
    """Delivers items in order on a daemon thread.

    ``put`` never waits: an item that finds the queue full is dropped and counted. An item whose
    delivery raises at the last of its ``retries`` is dropped and counted too, and so is what
    arrives in the pause after it.
    ``say`` prints a warning. ``open`` runs first, on the thread; if it says no, nothing is ever
    delivered.
    """

    def __init__(
        self,
        deliver: Callable[[Item], None],
        say: Callable[[str], None],
        *,
        size: int,
        open: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
        retries: Sequence[float] = RETRY_SECONDS,
    ) -> None:
        self.dropped = 0
        self._deliver, self._say, self._open, self._clock = deliver, say, open, clock
        self._retries = retries
        self._queue: queue.Queue[Item | None] = queue.Queue(size)
        self._guard = threading.Lock()
        self._warned, self._silent_until = float("-inf"), float("-inf")
        self._last: Item | None = None
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._work, name="courier", daemon=True)
        self._thread.start()

    def put(self, item: Item) -> None:
        """Queue an item, or drop it. Returns at once."""
        if not self._thread.is_alive():
            return
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            self._drop("it is too slow")

    def close(self, last: Item, seconds: float) -> None:
        """Queue the last item and stay: ``seconds`` at most for all that is queued, then the rest
        is dropped and ``last`` has as long again. No stay where a delivery has just failed."""
        self._last = last
        self.put(last)
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            return
        if self._clock() >= self._silent_until:
            self._thread.join(seconds)
            self._hurry.set()
            self._thread.join(seconds)

    def _work(self) -> None:
        if not self._open():
            return
        while (item := self._queue.get()) is not None:
            if self._clock() < self._silent_until:
                self._drop("it does not answer")
                continue
            if self._hurry.is_set() and item is not self._last:
                self._drop("it is too slow")
                continue
            try:
                self._persist(item)
            except Exception as error:  # whatever it is, the work goes on
                self._silent_until = self._clock() + PAUSE_SECONDS
                self._drop(f"{type(error).__name__}: {error}")

    def _persist(self, item: Item) -> None:
        for seconds in self._retries:
            try:
                return self._deliver(item)
            except Exception:  # of any kind: the last try below does not hide it
                time.sleep(seconds)
        return self._deliver(item)

    def _drop(self, reason: str) -> None:
        with self._guard:
            self.dropped += 1
            if self._clock() - self._warned < WARN_SECONDS:
                return
            self._warned = self._clock()
        self._say(f"warning: the monitor misses messages, {self.dropped} so far ({reason})")
