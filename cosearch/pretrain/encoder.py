"""The tiny bi-encoder, trained contrastively on the facts of fictional worlds.

Like a real dense retriever it should find the right article, but often miss the right section. So
training often replaces the relation of a query by another one of the same article, and its passage
by one that only mentions the subject.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from cosearch.core.types import Passage
from cosearch.data.world import Encyclopaedia
from cosearch.data.world_questions import Fact
from cosearch.data.world_relations import RELATIONS
from cosearch.pretrain.words import WordCodec


@dataclass(frozen=True, slots=True)
class EncoderRecipe:
    """Size and training of the bi-encoder."""

    hidden_size: int = 32
    layers: int = 1
    heads: int = 2
    feed_forward: int = 64
    max_length: int = 64
    steps: int = 200
    batch: int = 192
    learning_rate: float = 3.0e-3
    temperature: float = 0.1
    relation_noise: float = 0.9
    """Share of queries whose relation is replaced by another one of the same kind of subject."""
    mention_noise: float = 0.45
    """Share of queries whose passage is replaced by another article's that mentions the subject."""
    question_share: float = 0.5
    """Share of queries that are whole questions, as in RAG and in the Fixed Ranker's lists."""
    worlds: int = 4


def new_encoder(recipe: EncoderRecipe, vocabulary: int, pad: int) -> Any:
    """A randomly initialised ``BertModel``."""
    from transformers import BertConfig, BertModel

    build: Any = BertModel
    return build(
        BertConfig(
            vocab_size=vocabulary,
            hidden_size=recipe.hidden_size,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            intermediate_size=recipe.feed_forward,
            max_position_embeddings=recipe.max_length,
            type_vocab_size=1,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=pad,
        )
    )


@dataclass(frozen=True, slots=True)
class EncoderModel:
    """Makes mean-pooled, L2-normalised vectors of queries and passages behind their prefixes."""

    model: Any
    codec: WordCodec
    query_prefix: str
    passage_prefix: str

    def queries(self, queries: Sequence[str]) -> torch.Tensor:
        """[len(queries), hidden]."""
        return self._vectors([self.query_prefix + query for query in queries])

    def passages(self, passages: Sequence[Passage]) -> torch.Tensor:
        """[len(passages), hidden]. Joins title and text as the retriever does."""
        return self._vectors([f"{self.passage_prefix}{p.title}\n{p.text}" for p in passages])

    def _vectors(self, texts: Sequence[str]) -> torch.Tensor:
        rows = [torch.tensor(self.codec.words(text)) for text in texts]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        lengths = torch.tensor([len(row) for row in rows])
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        pooled = (states * mask[..., None]).sum(1) / lengths[:, None]
        return functional.normalize(pooled, dim=-1)


def train_encoder(
    encoder: EncoderModel, worlds: Sequence[Encyclopaedia], recipe: EncoderRecipe, seed: int
) -> None:
    """Train ``encoder.model`` in place with in-batch negatives (InfoNCE), one world after
    another."""
    rng = random.Random(seed)
    optimizer = torch.optim.AdamW(encoder.model.parameters(), lr=recipe.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=recipe.learning_rate, total_steps=recipe.steps, pct_start=0.1
    )
    encoder.model.train()
    for step in range(recipe.steps):
        world = worlds[step * len(worlds) // recipe.steps]
        queries, passages = _batch(world, recipe, rng)
        scores = encoder.queries(queries) @ encoder.passages(passages).T / recipe.temperature
        loss = functional.cross_entropy(scores, torch.arange(len(queries)))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
    encoder.model.eval()


def _batch(
    world: Encyclopaedia, recipe: EncoderRecipe, rng: random.Random
) -> tuple[list[str], list[Passage]]:
    """Queries and their passages. No passage occurs twice."""
    mentions: dict[str, list[Fact]] = {}
    for fact in world.facts.values():
        mentions.setdefault(fact.value, []).append(fact)
    wanted: dict[str, str] = {}
    for fact in rng.sample(list(world.facts.values()), recipe.batch):
        query = rng.choice(_asked(fact, recipe, rng))
        if rng.random() < recipe.mention_noise and fact.subject in mentions:
            fact = rng.choice(mentions[fact.subject])
        wanted[fact.passage] = query
    by_id = {passage.id: passage for passage in world.passages}
    return list(wanted.values()), [by_id[identity] for identity in wanted]


def _asked(fact: Fact, recipe: EncoderRecipe, rng: random.Random) -> tuple[str, ...]:
    """Sub-queries or questions for the fact, or for another relation of its subject."""
    relation = RELATIONS[fact.relation]
    if rng.random() < recipe.relation_noise:
        others = [r for r in RELATIONS.values() if r.subject == relation.subject]
        relation = rng.choice(others)
    if rng.random() < recipe.question_share:
        return relation.questions(fact.subject)
    return relation.queries(fact.subject)
