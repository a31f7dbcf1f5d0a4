"""The order of training questions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.types import Question
from cosearch.train.loop import draw_questions


def pool(size: int) -> list[Question]:
    return [Question(str(number), "nq", "?", ("x",)) for number in range(size)]


@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 5))
def test_rounds_together_walk_through_whole_epochs(size: int, count: int, seed: int) -> None:
    questions = pool(size)
    drawn = [q.id for number in range(12) for q in draw_questions(questions, number, count, seed)]
    for start in range(0, len(drawn) - size + 1, size):
        assert sorted(drawn[start : start + size]) == sorted(q.id for q in questions)


def test_seeds_and_epochs_order_differently() -> None:
    questions = pool(40)
    first, second, other = (
        [q.id for q in draw_questions(questions, number, 40, seed)]
        for number, seed in ((0, 1), (1, 1), (0, 2))
    )
    assert len({tuple(first), tuple(second), tuple(other)}) == 3


def test_a_pool_without_questions_is_named() -> None:
    with pytest.raises(ValueError, match="no training questions"):
        draw_questions([], 0, 1, 0)
