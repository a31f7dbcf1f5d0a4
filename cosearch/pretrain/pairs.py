"""Training lists of the cross-encoder, which scores pairs of a search and one passage.

A pair is one chat message, ``{question} | {query} : {title} {text}``, followed by the opening of
the assistant's turn. The model gives the score at the last token. The teacher is that of the
ranker, and makes the same mistakes.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from cosearch.pretrain.fiction import FictionEpisode
from cosearch.pretrain.prompts import Prompts
from cosearch.pretrain.traces import TraceScript, choose_wording, order_candidates, show_candidates


@dataclass(frozen=True, slots=True)
class PairList:
    """Token ids of the pairs of one list, and the position that the teacher ranks first."""

    pairs: tuple[tuple[int, ...], ...]
    first: int


def pair_list(
    episode: FictionEpisode,
    prompts: Prompts,
    script: TraceScript,
    rng: random.Random,
    *,
    top_n: int,
) -> PairList:
    """Pairs of one search of ``episode`` with ``top_n`` candidates, including the gold one."""
    search = choose_wording(episode, rng.choice(episode.searches), script, rng)
    shown = show_candidates(search, top_n, rng)
    first = order_candidates(shown, search, script, rng)[0]
    question = episode.task.question.text
    return PairList(
        tuple(tuple(prompts.pair(question, search.query, passage)) for passage in shown), first
    )


def pair_batches(
    episodes: Iterator[FictionEpisode],
    prompts: Prompts,
    script: TraceScript,
    batch: int,
    rng: random.Random,
    *,
    top_n: int,
) -> Iterator[list[PairList]]:
    """Endless batches of ``batch`` lists with ``top_n`` pairs each."""
    while True:
        yield [pair_list(next(episodes), prompts, script, rng, top_n=top_n) for _ in range(batch)]


def score_pairs(model: Any, pairs: Sequence[Sequence[int]]) -> torch.Tensor:
    """Scores of the pairs, [len(pairs)]. A higher score is better."""
    rows = [torch.tensor(pair) for pair in pairs]
    pad = model.config.pad_token_id
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
    lengths = torch.tensor([len(row) for row in rows])
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    scores: torch.Tensor = model(input_ids=ids, attention_mask=mask).logits[:, 0]
    return scores


def listwise_loss(model: Any, lists: Sequence[PairList]) -> tuple[torch.Tensor, float]:
    """Softmax cross-entropy of the teacher's first choice in each list, and the accuracy.

    All lists have the same length.
    """
    flat = [pair for row in lists for pair in row.pairs]
    scores = score_pairs(model, flat).view(len(lists), -1)
    firsts = torch.tensor([row.first for row in lists])
    hits = scores.detach().argmax(-1) == firsts
    return functional.cross_entropy(scores, firsts), float(hits.float().mean())
