"""Search-R1: its dialogue in the shared loop, and its shaped reward."""

import pytest

from cosearch.core.rollout import roll_out
from cosearch.core.types import SpanKind, Terminal
from cosearch.methods.bundle import METHODS
from cosearch.methods.search_r1 import FormatReward
from tests.core.builders import RETRIEVE, Table, agent_rules, in_turn, question, search_turn

SHAPED = FormatReward(structure=0.2, retrieval=0.1, attempt=0.1)


@pytest.mark.parametrize(
    ("has_answer", "correct", "well_formed", "retrieved", "reward"),
    [
        (True, True, True, True, 1.0),
        (True, True, True, False, 1.0),
        (True, True, False, True, 0.8),
        (True, True, False, False, 0.8),
        (True, False, True, True, 0.3),
        (True, False, True, False, 0.2),
        (True, False, False, True, 0.1),
        (True, False, False, False, 0.1),
        (False, False, True, True, 0.3),
        (False, False, True, False, 0.2),
        (False, False, False, True, 0.0),
        (False, False, False, False, 0.0),
    ],
)
def test_the_shaped_reward(
    has_answer: bool, correct: bool, well_formed: bool, retrieved: bool, reward: float
) -> None:
    given = SHAPED(
        has_answer=has_answer, correct=correct, well_formed=well_formed, retrieved=retrieved
    )
    assert given == pytest.approx(reward)


def test_a_corrected_trajectory_answers_and_learns_only_what_it_said() -> None:
    turns = (
        search_turn("Oslo"),
        "<think>look</think><search>Oslo</search><|end|>",
        "<think>known</think><answer>Oslo</answer><|end|>",
    )
    table = Table(in_turn(*turns))
    rules = agent_rules(dialogue=METHODS["search_r1"].dialogue)
    (played,) = table.play(roll_out(question(), 0, rules, (RETRIEVE,), 0))
    assert (played.terminal, played.answer, played.notices) == (Terminal.ANSWERED, "Oslo", 1)
    given_kinds = {SpanKind.PROMPT, SpanKind.OBSERVATION, SpanKind.NOTICE}
    assert given_kinds < {span.kind for span in played.spans}
    for span in played.spans:
        learned = span.kind not in given_kinds
        assert set(played.loss_mask[span.start : span.end]) == {int(learned)}
