"""A bounded queue between a stage that must never wait and a service that may be slow or down."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
WARN_SECONDS = 60.0
"""Seconds between two warnings."""
RETRY_SECONDS = (0.2, 1.0)
"""Seconds before the second and the third try of a delivery. A locked database is free soon."""
PAUSE_SECONDS = 2.0
"""Seconds without any delivery after one has failed at its last try."""


class Courier(Generic[Item]):
    """Delivers items in order on a daemon thread, and counts the items that it drops.

    ``put`` never waits. The courier drops an item if the queue is full, if ``deliver`` still raises
    after all ``retries``, or if the item's turn comes in the pause after such a failure. ``say``
    prints a warning about dropped items. The thread first calls ``open``; if that returns False,
    the courier delivers nothing.
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
        """Queue an item, or drop it if the queue is full. Returns at once."""
        if not self._thread.is_alive():
            return
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            self._drop("it is too slow")

    def close(self, last: Item, seconds: float) -> None:
        """Queue the last item and wait for the deliveries.

        Waits at most ``seconds`` for everything in the queue. Then the thread drops all but
        ``last``, and this waits ``seconds`` more for it. Does not wait in the pause after a failed
        delivery.
        """
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
            except Exception as error:  # the stage must go on after any failure here
                self._silent_until = self._clock() + PAUSE_SECONDS
                self._drop(f"{type(error).__name__}: {error}")

    def _persist(self, item: Item) -> None:
        for seconds in self._retries:
            try:
                return self._deliver(item)
            except Exception:  # of any kind; the last try below raises it again
                time.sleep(seconds)
        return self._deliver(item)

    def _drop(self, reason: str) -> None:
        with self._guard:
            self.dropped += 1
            if self._clock() - self._warned < WARN_SECONDS:
                return
            self._warned = self._clock()
        self._say(f"warning: the monitor misses messages, {self.dropped} so far ({reason})")
