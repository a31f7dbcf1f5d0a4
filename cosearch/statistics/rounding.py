"""Arithmetic on printed numbers: which results some rounding of the inputs can explain."""

from collections.abc import Iterable
from dataclasses import dataclass

from cosearch.scores.averages import Average

_NOISE = 1e-9
"""Below any printed digit; bounds that touch within it count as touching."""


@dataclass(frozen=True, slots=True)
class Span:
    """All values that a printed number may stand for, and the one it shows.

    ``text``: its digits, where it was printed; None for a result of arithmetic.
    """

    low: float
    value: float
    high: float
    text: str | None = None

    def meets(self, other: "Span") -> bool:
        """Whether some value is in both: one number may be a rounding of the other."""
        return self.low <= other.high + _NOISE and other.low <= self.high + _NOISE

    def surely_below(self, other: "Span") -> bool:
        """Whether no rounding puts this on or above the other."""
        return self.high < other.low - _NOISE

    def plus(self, other: "Span") -> "Span":
        """The sum of two independent numbers."""
        return Span(self.low + other.low, self.value + other.value, self.high + other.high)

    def over(self, other: "Span") -> "Span":
        """The quotient; ``other`` is positive throughout, or ValueError is raised."""
        if other.low <= 0:
            raise ValueError(f"division by {other}")
        corners = [a / b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Span(min(corners), self.value / other.value, max(corners))

    def times(self, factor: float) -> "Span":
        """Scaled by an exact number."""
        ends = sorted((factor * self.low, factor * self.high))
        return Span(ends[0], factor * self.value, ends[1])

    def __str__(self) -> str:
        return self.text or f"{self.value:.4g}"


def printed(text: str) -> Span:
    """What a number printed as ``text`` may stand for: half of its last digit either way."""
    half = 0.5 * 10.0 ** -len(text.partition(".")[2])
    value = float(text)
    return Span(value - half, value, value + half, text)


def total(spans: Iterable[Span]) -> Span:
    """The sum of independent numbers."""
    sum_ = Span(0.0, 0.0, 0.0)
    for span in spans:
        sum_ = sum_.plus(span)
    return sum_


def weighted(average: Average, cells: dict[str, Span]) -> Span:
    """An average of printed cells."""
    return total(cells[name].times(weight) for name, weight in average.weights.items())


def gain(new: Span, old: Span) -> Span:
    """Relative gain of ``new`` over ``old`` in percent."""
    ratio = new.over(old)
    low, value, high = (100 * (end - 1) for end in (ratio.low, ratio.value, ratio.high))
    return Span(low, value, high)
