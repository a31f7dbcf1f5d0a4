"""Invariants of the records, and seeds by name."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.protocols import NotFinite
from cosearch.core.seeds import derive
from cosearch.core.types import Generation, Sample
from tests.core.builders import SAMPLING, call, trajectory


def test_a_generation_has_a_log_probability_for_every_token() -> None:
    with pytest.raises(ValueError, match="2 sampled ids, 1 log-probabilities"):
        Generation((1, 2), (-0.5,), True, SAMPLING, 0)


def test_columns_of_a_trajectory_have_one_length() -> None:
    with pytest.raises(ValueError, match="ids, loss_mask and logprobs of q1 differ"):
        replace(trajectory(), loss_mask=(0, 1))


@pytest.mark.parametrize("short", ["ids", "loss_mask", "old_logprobs", "advantages"])
def test_columns_of_a_sample_have_one_length(short: str) -> None:
    sample = Sample([1, 2], [0, 1], [0.0, -1.0], [0.0, 2.0])
    with pytest.raises(ValueError, match="differ in length"):
        replace(sample, **{short: [1]})


def test_a_call_is_malformed_only_by_its_ranker() -> None:
    assert call().well_formed
    assert call(ranked=False).well_formed
    assert not call(fault="ids").well_formed


def test_a_fault_of_a_trainer_names_its_batch_where_there_is_one() -> None:
    fault = NotFinite("the loss is not finite", Path("scratch/batch.pt"))
    assert str(fault) == "the loss is not finite; batch saved: scratch/batch.pt"
    assert str(NotFinite("the gradient is not finite", None)) == "the gradient is not finite"


def test_seeds_are_the_same_everywhere() -> None:
    assert derive(0, "nq", "q1", 3) == 2294916341379248573
    assert derive("a", "b") != derive("ab") != derive("a\x1fb")
    assert derive(1) != derive("1")
    assert derive("\ud800") != derive("\ud801")


PART = st.integers() | st.text(max_size=3)


@given(st.lists(PART, max_size=3), st.lists(PART, max_size=3))
def test_seeds_differ_with_their_parts(left: list[int | str], right: list[int | str]) -> None:
    assert (derive(*left) == derive(*right)) == (left == right)
    assert 0 <= derive(*left) < 2**63
