"""Packed rows give what padded rows give, and samples reach other processes whole."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.types import Sample
from cosearch.engines.policies.attention import PACKED
from cosearch.engines.policies.heads import Batch, CausalHead
from cosearch.engines.policies.packing import PackedHead, takes_flash
from cosearch.engines.policies.ranks import flat, samples_of
from tests.engines.zero import worker
from tests.micro import VOCABULARY


def test_packed_sequences_do_not_see_each_other(folder: Path) -> None:
    batch = worker.grouped()
    head, padded = PackedHead(VOCABULARY), CausalHead(VOCABULARY)
    model, other = (h.load(folder / "model", "float32") for h in (head, padded))
    assert model.config._attn_implementation == PACKED and not takes_flash("float32")
    together = head(model, Batch(range(len(batch)), batch), 0.7)
    for found, wanted in zip(together, padded(other, Batch(range(7), batch), 0.7), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    moved = [replace(batch[0], ids=[3] * len(batch[0].ids)), *batch[1:]]
    kept = sum(batch[0].loss_mask)
    again, _ = head(model, Batch(range(len(batch)), moved), 0.7)
    assert torch.equal(again[kept:], together[0][kept:])
    assert not torch.equal(again[:kept], together[0][:kept])


def test_the_first_token_of_a_sequence_cannot_be_trained(folder: Path) -> None:
    head = PackedHead(VOCABULARY)
    bad = replace(worker.grouped()[0], loss_mask=[1] * 6)
    with pytest.raises(ValueError, match="first token"):
        head(head.load(folder / "model", "float32"), Batch([0], [bad]), 1.0)


NUMBERS = st.floats(allow_nan=False)


@st.composite
def drawn_samples(draw: st.DrawFn) -> Sample:
    ids = draw(st.lists(st.integers(0, 2**40), max_size=4))
    columns = [draw(st.lists(NUMBERS, min_size=len(ids), max_size=len(ids))) for _ in range(2)]
    mask = [token % 2 for token in ids]
    inputs = draw(st.lists(st.lists(st.integers(0, 9), max_size=3).map(tuple), max_size=3))
    return Sample(ids, mask, *columns, tuple(inputs), draw(st.text(max_size=3)))


@given(st.lists(drawn_samples(), max_size=4))
def test_samples_reach_the_other_ranks_whole(found: list[Sample]) -> None:
    ints, floats = flat(found)
    groups = json.loads(json.dumps([sample.group for sample in found]))
    assert samples_of(ints.tolist(), floats.tolist(), groups) == found
