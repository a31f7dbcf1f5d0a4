"""Interval arithmetic on printed numbers: which results some rounding of the inputs can explain."""

from collections.abc import Iterable
from dataclasses import dataclass

from cosearch.scores.averages import Average

_NOISE = 1e-9
"""Smaller than any printed digit. Bounds that lie this close count as equal."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """All values that a printed number may stand for, and the value that it shows.

    ``text``: the digits of a printed number; None for a result of arithmetic.
    """

    low: float
    value: float
    high: float
    text: str | None = None

    def meets(self, other: "ValueRange") -> bool:
        """True if some value is in both ranges, so that both numbers may show the same value."""
        return self.low <= other.high + _NOISE and other.low <= self.high + _NOISE

    def surely_below(self, other: "ValueRange") -> bool:
        """True if this number is below the other one under every rounding of both."""
        return self.high < other.low - _NOISE

    def plus(self, other: "ValueRange") -> "ValueRange":
        """The sum of two independent numbers."""
        return ValueRange(self.low + other.low, self.value + other.value, self.high + other.high)

    def over(self, other: "ValueRange") -> "ValueRange":
        """The quotient. Raises ValueError where ``other`` may be 0 or negative."""
        if other.low <= 0:
            raise ValueError(f"division by {other}")
        corners = [a / b for a in (self.low, self.high) for b in (other.low, other.high)]
        return ValueRange(min(corners), self.value / other.value, max(corners))

    def times(self, factor: float) -> "ValueRange":
        """Scaled by an exact number."""
        ends = sorted((factor * self.low, factor * self.high))
        return ValueRange(ends[0], factor * self.value, ends[1])

    def __str__(self) -> str:
        return self.text or f"{self.value:.4g}"


def printed_range(text: str) -> ValueRange:
    """The values that print as ``text``: half a unit of its last digit up and down."""
    half = 0.5 * 10.0 ** -len(text.partition(".")[2])
    value = float(text)
    return ValueRange(value - half, value, value + half, text)


def range_sum(spans: Iterable[ValueRange]) -> ValueRange:
    """The sum of independent numbers."""
    sum_ = ValueRange(0.0, 0.0, 0.0)
    for span in spans:
        sum_ = sum_.plus(span)
    return sum_


def weighted(average: Average, cells: dict[str, ValueRange]) -> ValueRange:
    """An average of printed cells."""
    return range_sum(cells[name].times(weight) for name, weight in average.weights.items())


def gain(new: ValueRange, old: ValueRange) -> ValueRange:
    """Relative gain of ``new`` over ``old`` in percent."""
    ratio = new.over(old)
    low, value, high = (100 * (end - 1) for end in (ratio.low, ratio.value, ratio.high))
    return ValueRange(low, value, high)
