"""Exams of base models, with writers whose texts are known."""

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cosearch.pretrain.fiction import FictionEpisode
from cosearch.pretrain.measure import (
    agent_exercises,
    listed_searches,
    measure_lists,
    measure_writer,
    ranker_exercises,
    simulator_exercises,
)
from cosearch.pretrain.prompts import Prompts
from cosearch.pretrain.traces import TraceScript
from cosearch.pretrain.words import END, PAD, WordCodec


@dataclass
class Parrot:
    """Writes the same tokens whatever it reads."""

    tokens: list[int]
    config: Any = field(default_factory=lambda: SimpleNamespace(pad_token_id=0))

    def generate(self, ids: torch.Tensor, **_: Any) -> torch.Tensor:
        """[rows, prompt + tokens]."""
        return torch.cat([ids, torch.tensor([self.tokens] * len(ids))], dim=1)


def says(words: WordCodec, *tokens: str) -> Parrot:
    return Parrot(words.tokens(*tokens, END, PAD))


def test_one_good_ranking_is_right_as_often_as_the_passage_stands_there(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec
) -> None:
    listed = listed_searches(episodes, TraceScript(), random.Random(1), top_n=8)
    exercises = ranker_exercises(listed, prompts, top_n=8, top_k=2)
    ranking = ("<reason>", "[1]", "</reason>", "<rerank>", "[1]", ">", "[2]", "</rerank>")
    measures = measure_writer(says(words, *ranking), words, exercises, max_tokens=9, seed=1)
    first = measure_lists(episodes, listed)["ranking"]
    assert 0 < first["right"] < 1
    assert first["found"] == round(len(listed) / len(episodes), 4)
    assert measures["ranking"] == {
        "well_formed_greedy": 1.0,
        "well_formed_sampled": 1.0,
        "right_greedy": first["right"],
        "right_sampled": first["right"],
    }


def test_an_answer_is_right_only_where_one_is_due(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec
) -> None:
    exercises = agent_exercises(episodes, prompts, TraceScript(), random.Random(2))
    gold = episodes[0].task.question.golds[0]
    answer = says(words, "<reason>", "not", "</reason>", "<answer>", *gold.split(), "</answer>")
    measures = measure_writer(answer, words, exercises, max_tokens=9, seed=1)
    same = sum(gold in episode.task.question.golds for episode in episodes)
    assert measures["answer"]["right_greedy"] == round(same / len(episodes), 4) > 0
    assert measures["query"]["right_greedy"] == 0
    assert measures["query"]["well_formed_greedy"] == 1
    hops = sum(len(episode.task.hops) for episode in episodes)
    assert [e.kind for e in exercises].count("query") == hops


def test_useful_documents_are_right_for_useful_requests_alone(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec
) -> None:
    single = [(e, e.searches[0][0]) for e in episodes if len(e.task.hops) == 1][:1]
    exercises = simulator_exercises(single, prompts, documents=1)
    gold = single[0][1].gold
    useful = says(words, *f"[1] {gold.title} : {gold.text}".split())
    measures = measure_writer(useful, words, exercises, max_tokens=9, seed=1)
    assert [measures[kind]["right_greedy"] for kind in ("useful", "noisy")] == [1, 0]


@pytest.mark.parametrize("tokens", [("need", "?"), ()])
def test_a_text_without_an_end_is_malformed(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec, tokens: tuple[str, ...]
) -> None:
    exercises = agent_exercises(episodes[:2], prompts, TraceScript(), random.Random(3))
    answer = ("<reason>", "not", "</reason>", "<answer>", "yes", "</answer>", *tokens)
    measures = measure_writer(Parrot(words.tokens(*answer)), words, exercises, max_tokens=8, seed=1)
    assert {shares["well_formed_greedy"] for shares in measures.values()} == {0.0}
