"""Pairs of the cross-encoder have the teacher's first choice, and padding changes no score."""

import random
from dataclasses import replace

import pytest
import torch

from cosearch.engines.policies.codec_hf import HfCodec
from cosearch.pretrain.fiction import FictionEpisode
from cosearch.pretrain.fit import ModelShape, new_scorer
from cosearch.pretrain.pairs import PairList, listwise_loss, pair_list, score_pairs
from cosearch.pretrain.prompts import Prompts
from cosearch.pretrain.traces import TraceScript
from cosearch.pretrain.words import WordCodec


def test_a_pair_word_for_word(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec
) -> None:
    search, question = episodes[0].searches[0][0], episodes[0].task.question.text
    text = words.decode(prompts.pair(question, search.query, search.gold))
    pair = f"{question} | {search.query} : {search.gold.title} {search.gold.text}"
    assert text == f"<|user|> {pair} <|end|> <|assistant|>"


def test_pairs_hold_the_ids_of_the_saved_tokenizer(
    episodes: list[FictionEpisode], prompts: Prompts, saved: HfCodec
) -> None:
    hf = replace(prompts, codec=saved)
    for episode in episodes:
        search, question = episode.searches[0][0], episode.task.question.text
        for passage in search.candidates[:3]:
            pair = prompts.pair(question, search.query, passage)
            assert pair == hf.pair(question, search.query, passage)


def test_a_sure_teacher_puts_the_gold_passage_first(
    episodes: list[FictionEpisode], prompts: Prompts, words: WordCodec
) -> None:
    script = TraceScript(wrong_first=0.0, unsure=())
    for episode in episodes:
        pairs = pair_list(episode, prompts, script, random.Random(5), top_n=8)
        golds = {search[0].gold.title for search in episode.searches}
        assert len(pairs.pairs) == 8
        first = words.decode(pairs.pairs[pairs.first])
        assert any(f" : {title} " in first for title in golds)


@pytest.fixture(scope="module")
def scorer(words: WordCodec) -> torch.nn.Module:
    torch.manual_seed(6)
    pad, eos = words.tokens("<|pad|>", "<|end|>")
    model: torch.nn.Module = new_scorer(
        ModelShape(32, 1, 1, 32), len(words.vocabulary), pad=pad, eos=eos
    )
    return model.eval()


def test_scores_do_not_depend_on_the_company(scorer: torch.nn.Module, words: WordCodec) -> None:
    short, long = words.tokens("need", "?"), words.tokens("need", "not", "found", ".", "?")
    together = score_pairs(scorer, [short, long])
    alone = torch.cat([score_pairs(scorer, [pair]) for pair in (short, long)])
    torch.testing.assert_close(together, alone)


def test_the_loss_is_the_softmax_of_the_first_choice(
    scorer: torch.nn.Module, words: WordCodec
) -> None:
    pairs = tuple(tuple(words.tokens("need", word)) for word in ("?", "not", "found"))
    scores = score_pairs(scorer, pairs)
    best = int(scores.argmax())
    loss, accuracy = listwise_loss(scorer, [PairList(pairs, best), PairList(pairs, (best + 1) % 3)])
    negative = -torch.log_softmax(scores, 0)
    torch.testing.assert_close(loss, (negative[best] + negative[(best + 1) % 3]) / 2)
    assert accuracy == 0.5
