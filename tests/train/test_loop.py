"""The order of training questions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.types import Question
from cosearch.train.loop import draw_questions


def pool(size: int) -> list[Question]:
    return [Question(str(number), "nq", "?", ("x",)) for number in range(size)]


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 5))
def test_rounds_together_walk_through_whole_epochs(size: int, count: int, seed: int) -> None:
    count = min(size, count)
    questions = pool(size)
    rounds = [[q.id for q in draw_questions(questions, n, count, seed)] for n in range(24)]
    drawn = [name for one in rounds for name in one]
    for start in range(0, len(drawn) - size + 1, size):
        assert sorted(drawn[start : start + size]) == sorted(q.id for q in questions)
    assert all(len(set(one)) == count for one in rounds)


def test_seeds_and_epochs_order_differently() -> None:
    questions = pool(40)
    first, second, other = (
        [q.id for q in draw_questions(questions, number, 40, seed)]
        for number, seed in ((0, 1), (1, 1), (0, 2))
    )
    assert len({tuple(first), tuple(second), tuple(other)}) == 3


@pytest.mark.parametrize("size", [0, 3])
def test_a_round_larger_than_the_pool_is_named(size: int) -> None:
    why = rf"train\.questions is 4, there are {size} training questions"
    with pytest.raises(ValueError, match=why):
        draw_questions(pool(size), 0, 4, 0)
