"""Streams of training batches: the ranker's curriculum over the number of candidates, trajectories
and simulated documents sorted by length, scored lists."""

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
    """Numbers of candidates to climb; the next one when the mean accuracy of the choice over the
    last ``window`` batches at the current one reaches ``promote_at``."""

    sizes: tuple[int, ...] = (2, 3, 4, 5, 6, 8)
    promote_at: float = 0.75
    window: int = 20
    review: float = 0.2
    """Share of batches at an earlier size."""
    largest: int = 10
    stretch: float = 0.15
    """Share of batches at the last size that have up to ``largest`` candidates."""


class RankerBatches:
    """Batches of ranker rows along the curriculum; ``observe`` reports accuracies back."""

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
        """Number of candidates reached so far."""
        return self._curriculum.sizes[self._level]

    @property
    def finished(self) -> bool:
        """Whether the last size is reached."""
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
        """A question and the search for one of its hops; on the way up, one the teacher knows."""
        while True:
            episode = next(self._episodes)
            searches = self._rng.choice(episode.searches)
            if self.finished or searches[0].fact.relation not in self._script.unsure:
                search = choose_wording(episode, searches, self._script, self._rng)
                return episode.task.question.text, search

    def observe(self, accuracy: float) -> None:
        """Accuracy of the choice in the last batch; may move on to the next size."""
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
    """Batches of rows of similar length, ``pool`` batches sorted at a time."""
    while True:
        rows = [draw() for _ in range(pool * batch)]
        rows.sort(key=lambda row: len(row.ids))
        batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        rng.shuffle(batches)
        yield from batches


def alternate(*streams: Iterator[DrawnT]) -> Iterator[DrawnT]:
    """A batch of each stream in turn; a stream may stand there twice."""
    while True:
        for stream in streams:
            yield next(stream)
