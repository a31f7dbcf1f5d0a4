"""Base training of the tiny causal models: a small Llama that learns from scripted rows.

Muon moves the matrices, AdamW the rest. The loss is taken on completions only. The ranker climbs a
curriculum over the number of candidates; the agent starts from what the ranker knew on the way.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from cosearch.pretrain.fiction import Episode, Search
from cosearch.pretrain.traces import (
    Prompts,
    Row,
    Script,
    agent_row,
    choose_search,
    ranker_row,
)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A Llama of about 0.7 M parameters. Heads of 32 are the smallest that samplers support."""

    hidden_size: int = 128
    layers: int = 3
    heads: int = 4
    feed_forward: int = 256
    max_length: int = 1024


@dataclass(frozen=True, slots=True)
class FitRecipe:
    """Optimisation of one causal model; the rate warms up, stays and falls to ``floor``."""

    steps: int
    batch: int
    learning_rate: float
    warmup: int = 50
    decay: float = 0.4
    """Share of the steps over which the rate falls."""
    floor: float = 0.05
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    grad_clip: float = 1.0


@dataclass(frozen=True, slots=True)
class Curriculum:
    """Numbers of candidates to climb; the next one when the mean accuracy of the choice over the
    last ``window`` batches at the current one reaches ``promote_at``."""

    sizes: tuple[int, ...] = (2, 3, 4, 5, 6, 8)
    promote_at: float = 0.75
    window: int = 20
    review: float = 0.2
    """Share of batches at an earlier size."""
    largest: int = 10
    stretch: float = 0.15
    """Share of batches at the last size that have up to ``largest`` candidates."""


def new_model(shape: ModelShape, vocabulary: int, *, pad: int, eos: int) -> Any:
    """A randomly initialised ``Qwen2ForCausalLM`` with untied embeddings."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    build: Any = Qwen2ForCausalLM
    return build(
        Qwen2Config(
            vocab_size=vocabulary,
            hidden_size=shape.hidden_size,
            intermediate_size=shape.feed_forward,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.heads,
            max_position_embeddings=shape.max_length,
            tie_word_embeddings=False,
            pad_token_id=pad,
            eos_token_id=eos,
            bos_token_id=None,
        )
    )


def fit(
    model: Any,
    batches: Iterator[Sequence[Row]],
    recipe: FitRecipe,
    on_step: Callable[[int, float, float], None],
) -> None:
    """Train ``model`` in place. ``on_step`` hears of step, loss and the accuracy of the tokens of
    greatest weight."""
    optimizers = _optimizers(model, recipe)
    model.train()
    for step in range(recipe.steps):
        loss, accuracy = _weighted_loss(model, next(batches))
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.grad_clip)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = recipe.learning_rate * _rate(step, recipe)
            optimizer.step()
            optimizer.zero_grad()
        on_step(step, float(loss.detach()), accuracy)
    model.eval()


def _rate(step: int, recipe: FitRecipe) -> float:
    """Factor of the learning rate at ``step``."""
    fall = (1 - step / recipe.steps) / recipe.decay
    return min(1.0, (step + 1) / recipe.warmup) * max(recipe.floor, min(1.0, fall))


def _optimizers(model: Any, recipe: FitRecipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices between the embeddings, AdamW for everything else."""
    inner = [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.ndim == 2 and "embed" not in name and "lm_head" not in name
    ]
    chosen = {id(parameter) for parameter in inner}
    outer = [parameter for parameter in model.parameters() if id(parameter) not in chosen]
    muon = torch.optim.Muon(
        inner,
        lr=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    adamw = torch.optim.AdamW(outer, lr=recipe.learning_rate, betas=recipe.betas, weight_decay=0.0)
    return [muon, adamw]


def _weighted_loss(model: Any, rows: Sequence[Row]) -> tuple[torch.Tensor, float]:
    """Weighted mean of the negative log-likelihood, and the accuracy at the greatest weights."""
    width = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    weights = torch.zeros(len(rows), width)
    for place, row in enumerate(rows):
        ids[place, width - len(row.ids) :] = torch.tensor(row.ids)
        weights[place, width - len(row.ids) :] = torch.tensor(row.weights)
    lengths = torch.tensor([len(row.ids) for row in rows])
    mask = (torch.arange(width) >= width - lengths[:, None]).long()
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    first = int(weights.sum(0).nonzero()[0])
    logits = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        logits_to_keep=width - first + 1,
    ).logits[:, :-1]
    targets, weights = ids[:, first:], weights[:, first:]
    losses = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    heavy = weights == weights.max()
    hits = (logits.detach().argmax(-1) == targets)[heavy]
    return (losses * weights).sum() / weights.sum(), float(hits.float().mean())


class RankerBatches:
    """Batches of ranker rows along the curriculum; ``observe`` reports accuracies back."""

    def __init__(
        self,
        episodes: Iterator[Episode],
        prompts: Prompts,
        script: Script,
        curriculum: Curriculum,
        batch: int,
        rng: random.Random,
    ) -> None:
        self._episodes, self._prompts, self._script = episodes, prompts, script
        self._curriculum, self._batch, self._rng = curriculum, batch, rng
        self._recent: deque[float] = deque(maxlen=curriculum.window)
        self._level = 0
        self._size = curriculum.sizes[0]

    @property
    def size(self) -> int:
        """Number of candidates reached so far."""
        return self._curriculum.sizes[self._level]

    @property
    def finished(self) -> bool:
        """Whether the last size is reached."""
        return self._level == len(self._curriculum.sizes) - 1

    def __iter__(self) -> Iterator[list[Row]]:
        while True:
            self._size = self._draw_size()
            largest = max(self._size, self._curriculum.sizes[-1])
            yield [
                ranker_row(
                    *self._search(),
                    self._prompts,
                    self._script,
                    self._rng,
                    top_n=self._size,
                    max_number=self._size if self.finished else largest,
                )
                for _ in range(self._batch)
            ]

    def _search(self) -> tuple[str, Search]:
        """A question and the search for one of its hops; on the way up, one the teacher knows."""
        while True:
            episode = next(self._episodes)
            searches = self._rng.choice(episode.searches)
            if self.finished or searches[0].fact.relation not in self._script.unsure:
                if episode.whole and self._rng.random() < self._script.whole:
                    return episode.task.question.text, episode.whole
                search = choose_search(searches, self._script, self._rng)
                return episode.task.question.text, search

    def observe(self, accuracy: float) -> None:
        """Accuracy of the choice in the last batch; may move on to the next size."""
        if self._size != self.size:
            return
        self._recent.append(accuracy)
        full = len(self._recent) == self._curriculum.window
        good = sum(self._recent) >= self._curriculum.promote_at * len(self._recent)
        if full and good and not self.finished:
            self._level += 1
            self._recent.clear()

    def _draw_size(self) -> int:
        draw = self._rng.random()
        if self._level and draw < self._curriculum.review:
            return self._rng.choice(self._curriculum.sizes[: self._level])
        if self.finished and draw > 1 - self._curriculum.stretch:
            return self._rng.randint(self.size, self._curriculum.largest)
        return self.size


def agent_batches(
    episodes: Iterator[Episode],
    prompts: Prompts,
    script: Script,
    batch: int,
    pool: int,
    rng: random.Random,
) -> Iterator[list[Row]]:
    """Batches of trajectories of similar length, ``pool`` batches sorted at a time."""
    while True:
        rows = [agent_row(next(episodes), prompts, script, rng) for _ in range(pool * batch)]
        rows.sort(key=lambda row: len(row.ids))
        batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        rng.shuffle(batches)
        yield from batches
