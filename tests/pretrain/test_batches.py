"""Batches hold rows of similar length, and several streams alternate."""

import random
from itertools import count, islice

from cosearch.pretrain.batches import alternate, pooled_batches
from cosearch.pretrain.traces import TraceRow


def test_a_pool_is_dealt_in_batches_of_like_length() -> None:
    rng = random.Random(1)
    lengths = count(1)

    def draw() -> TraceRow:
        length = next(lengths) * 7 % 13
        return TraceRow((0,) * length, (1.0,) * length)

    batches = list(islice(pooled_batches(draw, 3, 4, rng), 4))
    found = sorted([len(row.ids) for row in batch] for batch in batches)
    assert found == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]


def test_streams_take_turns() -> None:
    twice = iter("abde")
    assert list(islice(alternate(twice, twice, iter("cf")), 6)) == list("abcdef")
