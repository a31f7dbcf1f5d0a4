"""Single-turn training: which lists it ranks, and that it learns under every preset."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from cosearch.core.score import CrossEncoderStage
from cosearch.core.types import Candidate, Question, Sampling
from cosearch.params import blocks
from cosearch.rollouts.rank_list import RankingList
from cosearch.train.idle import idle_rounds
from cosearch.train.ranker import list_rules
from cosearch.train.single_turn import ListRun, train_ranker
from tests.core.builders import CODEC, preset
from tests.settings import block, tiny
from tests.train.test_loop_ranker import PASSAGES, Game, Observer

LISTS = [
    RankingList(
        Question(str(n), "nq", f"where is {n}", ("Oslo",)),
        tuple(Candidate(passage, 1.0) for passage in PASSAGES),
    )
    for n in range(5)
]


def train(folder: Path, credit: str, *, rounds: int = 2, **loss: float) -> list[pl.DataFrame]:
    """The rollouts of each round, after a training under a preset."""
    game = Game(folder)
    rules = preset(credit)
    method = tiny().method({f"loss.{name}": value for name, value in loss.items()})
    sizes = block(blocks.FixedRanker, rounds=rounds, questions=2)
    sampling = Sampling(1.0, 1.0, 0, 1)
    with game.store as store:
        run = ListRun(
            rules=list_rules(sizes, method, 2, len(LISTS), 3),
            credit=replace(rules, reward=replace(rules.reward, hit_cutoffs=(1, 2))),
            lists=LISTS,
            ranker=CrossEncoderStage(2, CODEC, sampling, "tiny", 100, 120),
            policy=game.policy,
            engines={"ranker": game.policy.sampler},
            store=store,
        )
        train_ranker(run, Observer(game.report, game.phase, game.moved.append))
        assert idle_rounds(store.metrics()) == {}
    return [game.calls(number) for number in range(1, rounds + 1)]


@pytest.mark.parametrize("credit", ["paper", "released"])
def test_the_ranker_is_trained_under_every_preset(tmp_path: Path, credit: str) -> None:
    """No agent is sampled here, so a bound in agent samples does not apply."""
    for calls in train(tmp_path, credit):
        assert calls.filter("trained").height > 0


def test_every_list_is_ranked_before_one_comes_again(tmp_path: Path) -> None:
    rounds = [sorted(calls["question_id"].unique()) for calls in train(tmp_path, "paper", rounds=5)]
    played = [name for one in rounds for name in one]
    assert sorted(played) == sorted([entry.question.id for entry in LISTS] * 2)
    assert all(len(one) == 2 for one in rounds)


def test_the_importance_cap_bounds_the_updates_of_lists_too(tmp_path: Path) -> None:
    method = tiny().method({"loss.importance_cap": 1.5})
    assert list_rules(block(blocks.FixedRanker), method, 2, 5, 3).importance_cap == 1.5
    free = train(tmp_path / "free", "paper")[1]
    capped = train(tmp_path / "capped", "paper", importance_cap=1e-9)[1]
    assert free["logprobs"].to_list() != capped["logprobs"].to_list()
