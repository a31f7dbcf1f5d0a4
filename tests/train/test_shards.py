"""Finished shards come back as they were, and a damaged one is refused."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.protocols import Retrieve
from cosearch.core.types import (
    Candidate,
    Generation,
    Note,
    Passage,
    Question,
    RankerOutput,
    Sampling,
    SearchCall,
    Span,
    SpanKind,
    Terminal,
    Trajectory,
)
from cosearch.rollouts.retrieved import Remembering
from cosearch.rollouts.shards import NoMemory, Shards, decode_shard, encode_shard

SAMPLING = Sampling(0.6, 1.0, 0, 9)
ANY_TEXT = st.text(alphabet=st.characters(), max_size=8)
FLOATS = st.floats(allow_nan=False)
PASSAGES = [Passage(str(n), f"title {n}", "text") for n in range(4)]
QUESTION = Question("1", "nq", "where?", ("Oslo",))


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    values = draw(st.lists(FLOATS, max_size=4))
    ids = tuple(range(len(values)))
    generation = Generation(ids, tuple(values), draw(st.booleans()), SAMPLING, 3)
    fault = draw(st.none() | ANY_TEXT)
    inputs = draw(st.sampled_from([(), ((1, 2), (3,))]))
    output = RankerOutput((1, 2), generation, draw(ANY_TEXT), fault, 0, inputs, ((0, 2),))
    call = SearchCall(
        0,
        draw(ANY_TEXT),
        tuple(Candidate(draw(st.sampled_from(PASSAGES)), draw(FLOATS)) for _ in range(3)),
        (2, 0),
        draw(st.sampled_from([None, output])),
        1,
        draw(
            st.sampled_from(
                [None, Note((), None, "n"), Note((4,), generation, "n", 1, ((0, 2), (2, 1)))]
            )
        ),
    )
    return Trajectory(
        QUESTION,
        0,
        ids,
        (1,) * len(ids),
        tuple(values),
        (Span(SpanKind.QUERY, 0, 0, len(ids)),),
        (draw(ANY_TEXT),),
        (call,) * draw(st.integers(0, 2)),
        draw(st.none() | ANY_TEXT),
        draw(st.sampled_from(list(Terminal))),
        fault,
        SAMPLING,
        3,
        0,
    )


@given(st.lists(trajectories(), max_size=3))
def test_trajectories_come_back_exactly(rolled: list[Trajectory]) -> None:
    assert decode_shard(encode_shard(rolled)) == rolled
    assert all(type(back.terminal) is Terminal for back in decode_shard(encode_shard(rolled)))


def rolled_out(sample: int = 0) -> Trajectory:
    call = SearchCall(0, "q \ud800", (Candidate(PASSAGES[0], math.pi),), (0,), None)
    return Trajectory(
        *(QUESTION, sample, (1,), (1,), (-0.1,), (), ("\ud83d",), (call,), None),
        *(Terminal.MALFORMED, "blocks", SAMPLING, 0, 0),
    )


def test_a_shard_is_read_back_from_its_file(tmp_path: Path) -> None:
    shards = Shards(tmp_path, NoMemory(), [])
    assert shards.read(0, [QUESTION], 1) is None
    shards.write(0, [rolled_out()])
    assert shards.read(0, [QUESTION], 1) == [rolled_out()]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_shard_is_named(tmp_path: Path, damage: str) -> None:
    shards = Shards(tmp_path, NoMemory(), [])
    shards.write(0, [rolled_out()])
    path = tmp_path / "shard_00000.json"
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    else:
        content = content[: len(content) // 2 * (damage == "cut")]
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"shard_00000.json: truncated or altered; delete this"):
        shards.read(0, [QUESTION], 1)


def test_a_shard_of_other_questions_is_refused(tmp_path: Path) -> None:
    shards = Shards(tmp_path, NoMemory(), [])
    shards.write(0, [rolled_out()])
    with pytest.raises(ValueError, match="not of this round's questions"):
        shards.read(0, [replace(QUESTION, text="who?")], 1)
    with pytest.raises(ValueError, match="not of this round's questions"):
        shards.read(0, [QUESTION], 2)


class Shelf:
    """Passages by position, and a retriever over them that notes its batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def positions(self, ids: Any) -> Any:
        return np.array([int(name) if name in "0123" else -1 for name in ids])

    def passage(self, position: int) -> Passage:
        return PASSAGES[position]

    def __call__(self, requests: Any) -> list[list[Candidate]]:
        self.batches.append([request.query for request in requests])
        return [[Candidate(PASSAGES[len(r.query) % 4], 0.5)] for r in requests]


def test_a_resumed_retriever_searches_in_the_same_batches() -> None:
    first, second = Shelf(), Shelf()
    straight = Remembering(first, first)
    found = straight([Retrieve("a", 2), Retrieve("bb", 2)])
    resumed = Remembering(second, second)
    resumed.put(straight.take())
    assert straight.take() == []
    again = resumed([Retrieve("bb", 2), Retrieve("ccc", 2), Retrieve("a", 2)])
    assert second.batches == [["ccc"]]
    assert [again[0], again[2]] == [found[1], found[0]]
    assert resumed.take() == [["ccc", 2, ["3"], [0.5]]]


def test_a_passage_that_is_gone_is_named() -> None:
    with pytest.raises(ValueError, match="passage 'x', the corpus has none"):
        Remembering(Shelf(), Shelf()).put([["a", 1, ["x"], [0.1]]])
