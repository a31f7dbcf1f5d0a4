"""Pictures of intervals: one strip per interval on a common scale, as rows of a table.

A place on a strip is a percentage of its width, so a picture fits any screen, and its words keep
their size. The numbers stand beside the strips as text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from matplotlib.ticker import MaxNLocator

from cosearch.statistics.bootstrap import Interval
from cosearch.tables.layout import Column, cell_text

_MARGIN = 4.0
"""Percent of a strip's width left free at both ends."""
_STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Scale:
    """From ``low`` to ``high``; ``ticks`` are round values between them."""

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, values: Iterable[float], parts: int) -> "Scale":
        """A scale that holds 0 and all values, with at most ``parts`` round steps."""
        every = [0.0, *values]
        low, high = min(every), max(every)
        ticks = map(float, MaxNLocator(nbins=parts, steps=_STEPS).tick_values(low, high))
        return cls(low, high, tuple(tick for tick in ticks if low <= tick <= high))

    def at(self, value: float) -> str:
        """The place of a value, in percent of the width."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return f"{_MARGIN + (100 - 2 * _MARGIN) * share:.2f}%"


@dataclass(frozen=True)
class IntervalRow:
    """A line: its label and an interval in each column, or a ``status`` in their place.

    ``systems``: the systems behind the cells, the one that the line is about first.
    ``group``: the heading that it stands under.
    """

    label: str
    intervals: tuple[Interval, ...]
    systems: tuple[str, ...]
    group: str = ""
    status: str | None = None


@dataclass(frozen=True)
class IntervalPicture:
    """A table of strips. ``signed``: the intervals are of differences, so each has a verdict."""

    name: str
    title: str
    note: str
    columns: tuple[str, ...]
    rows: Sequence[IntervalRow]
    head: str = "System"
    signed: bool = False
    parts: int = 5

    @property
    def alone(self) -> bool:
        """True if a line has one strip, with its numbers beside it instead of below."""
        return len(self.columns) == 1

    @cached_property
    def scale(self) -> Scale:
        """The scale of all strips."""
        ends = [end for row in self.rows for one in row.intervals for end in (one.low, one.high)]
        return Scale.over(ends, self.parts)

    def number(self, value: float) -> str:
        """A number as the table beside the picture prints it."""
        return cell_text(float(value), Column("", signed=self.signed))

    def kind(self, interval: Interval) -> str:
        """The class of a strip: the verdict of a difference in one word, or ``value``."""
        if not self.signed:
            return "value"
        return "unproven" if interval.unproven else interval.verdict.split()[0]
