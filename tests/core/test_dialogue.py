"""How an agent is answered: notices, the last turn, notes; what of it is learned from."""

from dataclasses import replace
from typing import Any

import pytest

from cosearch.core.formats import GRAMMARS
from cosearch.core.observe import PendingSearch, needs_gold
from cosearch.core.rollout import Dialogue, roll_out
from cosearch.core.types import Note, SpanKind, Terminal, Trajectory
from cosearch.engines.scripted import ScriptedReply
from tests.core.builders import (
    DIALOGUE,
    ORACLE,
    RETRIEVE,
    Table,
    agent_rules,
    answer_turn,
    in_turn,
    question,
    ranker_stage,
    search_turn,
)
from tests.core.test_rollout import check_columns, texts

FORGIVING = replace(DIALOGUE, notice="notice", last="last")
BARE = Dialogue(GRAMMARS["tags"], "agent_tags", "observation_tags", "notice_tags", "last_tags")
NOTICE = "<|user|>not found<|end|><|assistant|>"
LAST = "\n?<|end|><|assistant|>"


def play(agent: ScriptedReply, *, stages: Any = (RETRIEVE,), **changes: Any) -> Trajectory:
    rules = agent_rules(**{"dialogue": FORGIVING} | changes)
    (played,) = Table(agent).play(roll_out(question(), 0, rules, stages, 0))
    check_columns(played)
    return played


def test_a_noticed_turn_is_told_and_the_trajectory_goes_on() -> None:
    played = play(in_turn("Oslo<|end|>", search_turn("Oslo"), answer_turn("Oslo")))
    assert (played.terminal, played.answer, played.fault) == (Terminal.ANSWERED, "Oslo", None)
    assert (played.notices, len(played.calls), len(played.turns)) == (1, 1, 3)
    assert texts(played, SpanKind.NOTICE) == [NOTICE]
    assert played.calls[0].turn == 1
    assert played.well_formed


def test_a_notice_is_not_trained_on() -> None:
    played = play(in_turn("Oslo<|end|>", answer_turn("Oslo")))
    (span,) = (s for s in played.spans if s.kind is SpanKind.NOTICE)
    assert not any(played.loss_mask[span.start : span.end])
    assert not any(played.logprobs[span.start : span.end])
    assert span.turn == 0


def test_notices_and_searches_share_one_budget() -> None:
    turns = ("x<|end|>", search_turn("Oslo"), "x<|end|>")
    assert play(in_turn(*turns, answer_turn("Oslo"))).terminal is Terminal.ANSWERED
    beyond = play(in_turn(*turns, search_turn("Oslo")))
    assert (beyond.terminal, beyond.notices, len(beyond.calls)) == (Terminal.SEARCH_BUDGET, 2, 1)
    wrong = play(in_turn(*turns, "x<|end|>"))
    assert (wrong.terminal, wrong.notices, wrong.fault) == (Terminal.MALFORMED, 2, "blocks")


def test_the_last_turn_is_asked_for_once_and_after_either_reply() -> None:
    searched = play(in_turn(*[search_turn("Oslo")] * 3, answer_turn("Oslo")))
    shown = texts(searched, SpanKind.OBSERVATION)
    assert [reply.endswith(LAST) for reply in shown] == [False, False, True]
    assert searched.terminal is Terminal.ANSWERED
    noticed = play(in_turn(*["x<|end|>"] * 3, answer_turn("Oslo")))
    assert texts(noticed, SpanKind.NOTICE) == [NOTICE, NOTICE, "<|user|>not found" + LAST]


def test_a_dialogue_without_a_last_call_says_nothing_of_it() -> None:
    agent = in_turn(*["x<|end|>"] * 3, answer_turn("Oslo"))
    played = play(agent, dialogue=replace(FORGIVING, last=None))
    assert texts(played, SpanKind.NOTICE) == [NOTICE] * 3


def test_a_turn_cut_by_its_limit_is_not_noticed() -> None:
    played = play(lambda *_: "x" * 9)
    assert (played.terminal, played.notices) == (Terminal.TOKEN_BUDGET, 0)


def test_a_notice_without_room_ends_the_trajectory() -> None:
    for room in range(6):
        played = play(lambda *_: "x<|end|>", max_response_tokens=room)
        assert (played.terminal, played.notices) == (Terminal.TOKEN_BUDGET, 0)
        assert len(played.turns) == min(room, 1)


def test_every_response_budget_is_kept_with_notices() -> None:
    agent = in_turn("x<|end|>", search_turn("Oslo"), "x<|end|>", answer_turn("Oslo"))
    whole = play(agent)
    prompt = whole.spans[0].end
    for budget in range(len(whole.ids) - prompt + 1):
        played = play(agent, max_response_tokens=budget)
        assert len(played.ids) <= prompt + budget
    assert played == whole


def test_a_dialogue_names_grammar_and_templates() -> None:
    turns = (
        "<think>look</think><search>Paris</search><|end|>",
        "<think>known</think><answer>Oslo</answer><|end|>",
    )
    played = play(in_turn(*turns), dialogue=BARE)
    assert (played.answer, played.notices) == ("Oslo", 0)
    assert [call.query for call in played.calls] == ["Paris"]
    assert texts(played, SpanKind.QUERY) == ["Paris"]
    assert texts(played, SpanKind.ANSWER) == ["Oslo"]
    foreign = play(in_turn(search_turn("Oslo"), turns[1]), dialogue=BARE)
    assert (foreign.answer, foreign.notices, foreign.calls) == ("Oslo", 1, ())


class Noting:
    """A stage that writes down what it was given."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.seen: list[PendingSearch] = []

    async def __call__(self, search: PendingSearch) -> PendingSearch:
        self.seen.append(search)
        return replace(search, note=Note((1, 2), None, self.text))


def test_a_note_is_read_in_place_of_the_documents() -> None:
    stage = Noting("Oslo it is <|end|>")
    agent = in_turn(search_turn("Oslo"), answer_turn("Oslo"))
    played = play(agent, stages=(RETRIEVE, stage))
    assert texts(played, SpanKind.OBSERVATION) == ["<|user|>Oslo it is <|end|><|end|><|assistant|>"]
    (call,) = played.calls
    assert call.note == Note((1, 2), None, "Oslo it is <|end|>")
    assert (len(call.candidates), call.ranking, call.dropped_documents) == (5, (0, 1, 2), 0)
    assert [passage.text for passage in call.shown()] == ["Oslo it is <|end|>"]


def test_a_note_that_does_not_fit_is_left_out_whole() -> None:
    agent = in_turn(search_turn("Oslo"), answer_turn("Oslo"))
    played = play(agent, stages=(RETRIEVE, Noting("x" * 50)), max_observation_tokens=50)
    assert texts(played, SpanKind.OBSERVATION) == ["<|user|><|end|><|assistant|>"]
    assert played.calls[0].dropped_documents == 1
    assert played.calls[0].shown() == ()


def test_stages_see_what_was_searched_and_said_before() -> None:
    stage = Noting("note")
    turns = (search_turn("Paris"), "x<|end|>", search_turn("Oslo"), answer_turn("Oslo"))
    played = play(in_turn(*turns), stages=(RETRIEVE, stage))
    said = [turn.removesuffix("<|end|>") for turn in turns]
    assert [search.turns for search in stage.seen] == [tuple(said[:1]), tuple(said[:3])]
    assert [search.calls for search in stage.seen] == [(), played.calls[:1]]


@pytest.mark.parametrize(
    ("stages", "wanted"),
    [((), False), ((RETRIEVE, ranker_stage()), False), ((RETRIEVE, ORACLE), True)],
)
def test_stages_that_hold_the_golds_say_so(stages: Any, wanted: bool) -> None:
    assert needs_gold(stages) is wanted
