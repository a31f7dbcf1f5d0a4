"""Streams of training batches.

The ranker's batches follow a curriculum over the number of candidates. Batches of trajectories and
of simulated documents hold rows of similar length.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from cosearch.pretrain.fiction import FictionEpisode, FictionSearch
from cosearch.pretrain.prompts import Prompts
from cosearch.pretrain.traces import TraceRow, TraceScript, choose_wording, ranker_row

DrawnT = TypeVar("DrawnT")


@dataclass(frozen=True, slots=True)
class Curriculum:
    """Numbers of candidates, in rising order.

    Training moves to the next number when the mean accuracy over the last ``window`` batches at the
    current number reaches ``promote_at``.
    """

    sizes: tuple[int, ...] = (2, 3, 4, 5, 6, 8)
    promote_at: float = 0.75
    window: int = 20
    review: float = 0.2
    """Share of batches with an earlier number of candidates."""
    largest: int = 10
    stretch: float = 0.15
    """At the last number, the share of batches with up to ``largest`` candidates."""


class RankerBatches:
    """Batches of ranker rows along the curriculum. The training reports accuracies to
    ``observe``."""

    def __init__(
        self,
        episodes: Iterator[FictionEpisode],
        prompts: Prompts,
        script: TraceScript,
        curriculum: Curriculum,
        batch: int,
        rng: random.Random,
    ) -> None:
        self._episodes, self._prompts, self._script = episodes, prompts, script
        self._curriculum, self._batch, self._rng = curriculum, batch, rng
        self._recent: deque[float] = deque(maxlen=curriculum.window)
        self._level = 0
        self._size = curriculum.sizes[0]

    @property
    def size(self) -> int:
        """Current number of candidates."""
        return self._curriculum.sizes[self._level]

    @property
    def finished(self) -> bool:
        """True if the curriculum has reached its last number."""
        return self._level == len(self._curriculum.sizes) - 1

    def __iter__(self) -> Iterator[list[TraceRow]]:
        while True:
            self._size = self._draw_size()
            largest = max(self._size, self._curriculum.sizes[-1])
            yield [
                ranker_row(
                    *self._search(),
                    self._prompts,
                    self._script,
                    self._rng,
                    top_n=self._size,
                    max_number=self._size if self.finished else largest,
                )
                for _ in range(self._batch)
            ]

    def _search(self) -> tuple[str, FictionSearch]:
        """A question and a search for one of its hops.

        Before the last number the teacher knows the right passage of every drawn hop.
        """
        while True:
            episode = next(self._episodes)
            searches = self._rng.choice(episode.searches)
            if self.finished or searches[0].fact.relation not in self._script.unsure:
                search = choose_wording(episode, searches, self._script, self._rng)
                return episode.task.question.text, search

    def observe(self, accuracy: float) -> None:
        """Receive the accuracy of the last batch, and move to the next number if it is time."""
        if self._size != self.size:
            return
        self._recent.append(accuracy)
        full = len(self._recent) == self._curriculum.window
        good = sum(self._recent) >= self._curriculum.promote_at * len(self._recent)
        if full and good and not self.finished:
            self._level += 1
            self._recent.clear()

    def _draw_size(self) -> int:
        draw = self._rng.random()
        if self._level and draw < self._curriculum.review:
            return self._rng.choice(self._curriculum.sizes[: self._level])
        if self.finished and draw > 1 - self._curriculum.stretch:
            return self._rng.randint(self.size, self._curriculum.largest)
        return self.size


def pooled_batches(
    draw: Callable[[], TraceRow], batch: int, pool: int, rng: random.Random
) -> Iterator[list[TraceRow]]:
    """Batches of rows of similar length. Sorts the rows of ``pool`` batches at a time."""
    while True:
        rows = [draw() for _ in range(pool * batch)]
        rows.sort(key=lambda row: len(row.ids))
        batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        rng.shuffle(batches)
        yield from batches


def alternate(*streams: Iterator[DrawnT]) -> Iterator[DrawnT]:
    """One batch of each stream in turn. A stream that is given twice has two turns."""
    while True:
        for stream in streams:
            yield next(stream)
