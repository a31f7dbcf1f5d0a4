"""Search-R1: its dialogue in the shared loop."""

from cosearch.core.rollout import roll_out
from cosearch.core.types import SpanKind, Terminal
from cosearch.methods.bundle import METHODS
from tests.core.builders import RETRIEVE, Table, agent_rules, in_turn, question, search_turn


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
