"""What a printed number may stand for, and arithmetic on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.statistics.rounding import ValueRange, gain, printed_range, range_sum

numbers = st.integers(1, 999).map(lambda n: n / 1000)


@given(st.lists(st.tuples(numbers, st.floats(-0.0005, 0.0005)), min_size=2, max_size=7))
def test_no_rounding_is_ever_called_wrong(pairs):
    """Whatever true values stand behind printed ones, sums and gains meet their spans."""
    true = [value + off for value, off in pairs]
    spans = [printed_range(f"{value:.3f}") for value, _ in pairs]
    exact = sum(true)
    assert range_sum(spans).meets(ValueRange(exact, exact, exact))
    grown = 100 * (true[0] / true[1] - 1) if true[1] > 0 else None
    if grown is not None and spans[1].low > 0:
        assert gain(*spans[:2]).meets(ValueRange(grown, grown, grown))


def test_a_gain_over_what_may_be_nothing_is_refused():
    with pytest.raises(ValueError, match="division"):
        gain(printed_range("0.1"), printed_range("0.000"))


@pytest.mark.parametrize(("text", "half"), [("10.8", 0.05), ("27", 0.5), ("0.568", 0.0005)])
def test_a_printed_number_stands_for_half_of_its_last_digit(text, half):
    span = printed_range(text)
    assert span.high - span.value == pytest.approx(half)
    assert str(span) == text
