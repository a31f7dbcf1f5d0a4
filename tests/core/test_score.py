"""The cross-encoder's stage: pairs within their budget, picks as a ranking (Table 3)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.credit import assign_credit, ranker_samples
from cosearch.core.lockstep import run_lockstep
from cosearch.core.observe import PendingSearch
from cosearch.core.prompts import fill_template
from cosearch.core.protocols import Choose
from cosearch.core.score import CrossEncoderStage
from cosearch.core.seeds import derive
from cosearch.core.types import Generation, Passage
from tests.core.builders import CODEC, SAMPLING, candidates, preset, question, trajectory

START = PendingSearch(question(), "capital", turn=2, seed=5)


class LengthScorer:
    """A scoring policy to which longer pairs are better."""

    def __init__(self) -> None:
        self.requests: list[Choose] = []

    def __call__(self, requests: Sequence[Choose]) -> list[Generation]:
        self.requests += requests
        return [self._choose(request) for request in requests]

    def _choose(self, request: Choose) -> Generation:
        order = sorted(range(len(request.inputs)), key=lambda place: -len(request.inputs[place]))
        picks = tuple(order[: request.count])
        return Generation(picks, (-0.25,) * len(picks), True, request.sampling, 3)


def stage(**changes: Any) -> CrossEncoderStage:
    settings: dict[str, Any] = {
        "top_k": 3,
        "codec": CODEC,
        "sampling": SAMPLING,
        "templates": "tiny",
        "max_document_chars": 100,
        "max_pair_tokens": 200,
    }
    return CrossEncoderStage(**settings | changes)


def run(search: PendingSearch, **changes: Any) -> tuple[PendingSearch, LengthScorer]:
    scorer = LengthScorer()
    (result,) = run_lockstep([stage(**changes)(search)], {"ranker": scorer})
    return result, scorer


def with_candidates(*texts: str) -> PendingSearch:
    return replace(START, candidates=candidates(*texts), ranking=(0, 1))


def test_picks_become_the_ranking_and_the_record() -> None:
    result, scorer = run(with_candidates("aa", "a", "aaaa", "aaa"))
    assert result.ranking == (2, 3, 0)
    output = result.output
    assert output is not None
    assert (output.text, output.fault, output.dropped_candidates) == ("[3] > [4] > [1]", None, 0)
    assert (output.prompt_ids, output.generation.ids) == ((), (2, 3, 0))
    (request,) = scorer.requests
    assert (request.count, request.engine, request.sampling) == (3, "ranker", SAMPLING)
    assert request.seed == derive(5, "ranker", 2)
    assert (output.inputs, output.cuts) == (request.inputs, ())
    assert CODEC.decode(request.inputs[1]) == (
        "<|user|>capital of Norway | capital :  a<|end|><|assistant|>"
    )


def test_fewer_candidates_than_k_are_all_picked() -> None:
    result, _ = run(with_candidates("a", "aa"))
    assert result.ranking == (1, 0)
    assert result.done(0).well_formed


def test_without_candidates_nobody_is_asked() -> None:
    result, scorer = run(START)
    assert (result, scorer.requests) == (START, [])


FRAME = len(stage().pair("q", "q", Passage("0", "t", ""))[0])


@given(st.text(alphabet="ab<>|", max_size=60), st.integers(0, 70))
def test_the_text_gives_way_from_its_end(text: str, room: int) -> None:
    """One character is one token to this codec."""
    rules = stage(max_document_chars=40, max_pair_tokens=FRAME + room)
    ids, kept = rules.pair("q", "q", Passage("0", "t", text))
    assert len(ids) == min(FRAME + room, FRAME + len(text[:40]))
    shown = (
        CODEC.decode(ids).removeprefix("<|user|>q | q : t ").removesuffix("<|end|><|assistant|>")
    )
    assert shown == text[: min(40, room)]
    assert kept == (len(shown) if len(shown) < len(text) else None)


def test_cut_texts_are_recorded() -> None:
    result, _ = run(with_candidates("aaaa", "a", "aaa"), max_document_chars=2)
    assert result.output is not None
    assert result.output.cuts == ((0, 2), (2, 2))


def test_a_pair_without_room_for_its_query_is_named() -> None:
    rules = stage(max_pair_tokens=FRAME - 1)
    with pytest.raises(ValueError, match=r"max_pair_tokens=.* query 'q': raise it"):
        rules.pair("q", "q", Passage("0", "t", "text"))


def test_samples_of_picks_hold_the_pairs_and_train_every_pick() -> None:
    texts = [("Oslo", "x yy", "y"), ("x", "Oslo", "yyyyyy"), ("x", "yyyyyy", "Oslo")]
    searches = [run(with_candidates(*row), top_k=2)[0] for row in texts]
    played = [trajectory(search.done(0), sample=n) for n, search in enumerate(searches)]
    verdicts = assign_credit(played, preset("paper"))
    found = ranker_samples(played, verdicts)
    assert len(found) == 3
    for sample, search, (verdict,) in zip(found, searches, verdicts.calls, strict=True):
        assert search.output is not None
        assert (sample.ids, sample.loss_mask) == (search.ranking, (1, 1))
        assert sample.inputs == search.output.inputs
        assert sample.old_logprobs == (-0.25, -0.25)
        assert sample.advantages == (verdict.advantage,) * 2
        assert sample.group == verdict.group == "nq/q1#0"
    assert found[0].advantages != found[1].advantages


def test_equal_picks_from_other_lists_share_no_reward_in_the_release() -> None:
    """The list is the prompt: a ranking of other documents is another ranking."""
    rows = [("Oslo", "xx", "x"), ("Oslo", "xx", "y"), ("Oslo", "zz", "x"), ("Oslo", "xx", "x")]
    searches = [run(with_candidates(*row))[0] for row in rows]
    played = [trajectory(search.done(0), sample=n) for n, search in enumerate(searches)]
    played[3] = replace(played[3], answer="Bergen")
    rules = replace(preset("released"), drop_constant_groups=False)
    advantages = [row[0].advantage for row in assign_credit(played, rules).calls]
    assert advantages[0] == advantages[3] != advantages[1] == advantages[2]


@pytest.mark.parametrize("name", ["tiny", "worked", "paper"])
def test_every_template_set_puts_a_pair(name: str) -> None:
    wanted = ["question", "query", "title", "text"]
    (message,) = fill_template(name, "pair", {field: f"<{field}>" for field in wanted})
    assert message.role == "user"
    assert [s.text for s in message.segments if not s.trusted] == [f"<{f}>" for f in wanted]
