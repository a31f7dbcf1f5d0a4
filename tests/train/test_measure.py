"""Greedy measures keep their names whatever pays the agent."""

from dataclasses import replace

import pytest

from cosearch.rollouts.measure import measure
from tests.core.builders import call, preset, question, trajectory

PAPER = preset("paper")


@pytest.mark.parametrize("paid_by", ["f1", "em"])
def test_f1_is_f1_and_em_is_em(paid_by: str) -> None:
    credit = replace(PAPER, reward=replace(PAPER.reward, answer_metric=paid_by))
    asked = question("alpha beta gamma delta")
    answers = ("alpha beta gamma delta", "alpha beta gamma x", None)
    played = [
        trajectory(call(), answer=answer, asked=asked, sample=n) for n, answer in enumerate(answers)
    ]
    found = measure(played, credit)
    assert found["f1"] == pytest.approx((1 + 0.75) / 3)
    assert found["em"] == pytest.approx(1 / 3)
    assert found["well_formed"] == pytest.approx(2 / 3)
