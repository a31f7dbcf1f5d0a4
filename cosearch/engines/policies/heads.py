"""How a batch of samples becomes log-probabilities: of tokens, or of Plackett-Luce picks.

A trainer sees its kind of policy through a head only. Loss, clipping, optimiser and state are the
same for both kinds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Protocol

import torch

from cosearch.core.types import Sample
from cosearch.engines.loading import at_least_float32, load_causal_lm, load_scorer
from cosearch.engines.policies.logits import Scores, scores_at
from cosearch.engines.policies.look import check_numbers, check_vocabulary, sequences, written


class Batch:
    """Samples that run together; ``indices`` are their places in the whole update, and ``parts``
    tells into how many its trained tokens are cut when their logits are computed."""

    def __init__(self, indices: Sequence[int], samples: Sequence[Sample], parts: int = 1) -> None:
        self.indices = indices
        self.samples = samples
        self.parts = parts

    def column(self, name: str) -> torch.Tensor:
        """A per-token field of the samples at the trained tokens, [tokens]."""
        return torch.tensor(
            [
                value
                for sample in self.samples
                for value, flag in zip(getattr(sample, name), sample.loss_mask, strict=True)
                if flag
            ]
        )

    def token_weights(self, weights: Sequence[float]) -> torch.Tensor:
        """The weight of every trained token, [tokens]."""
        return torch.tensor(
            [
                weights[index]
                for index, sample in zip(self.indices, self.samples, strict=True)
                for flag in sample.loss_mask
                if flag
            ]
        )


class Head(Protocol):
    """One kind of policy, as its trainer sees it."""

    def load(self, folder: str | Path, dtype: str) -> Any:
        """The model of ``folder``."""

    def shape(self, sample: Sample) -> tuple[int, int]:
        """How many rows the sample adds to a forward pass, and the tokens of its longest one."""

    def __call__(self, model: Any, batch: Batch, temperature: float) -> Scores:
        """Log-probabilities and entropies [tokens] of the trained actions, sample by sample."""


class CausalHead:
    """Tokens of a causal language model.

    Rows of the output layer beyond ``vocabulary`` belong to no token; the sampler skips them too.
    """

    def __init__(self, vocabulary: int) -> None:
        self._vocabulary = vocabulary

    def load(self, folder: str | Path, dtype: str) -> Any:
        """A causal language model. Raises ValueError for one that this head reads otherwise than it
        computes."""
        model = load_causal_lm(folder, dtype)
        self.check(model, folder)
        return model

    def check(self, model: Any, folder: str | Path) -> None:
        """Raises ValueError where padded rows give other log-probabilities than ``model`` does."""
        check_head(self, model, folder, self._vocabulary)

    def shape(self, sample: Sample) -> tuple[int, int]:
        """One row of all ids."""
        return 1, len(sample.ids)

    def __call__(self, model: Any, batch: Batch, temperature: float) -> Scores:
        """Log-probabilities of the tokens under the mask; the output layer runs on those alone."""
        ids, attention = right_padded([sample.ids for sample in batch.samples], fill=0)
        masks, _ = right_padded([sample.loss_mask for sample in batch.samples], fill=0)
        trained = masks[:, 1:].bool()
        before = torch.nn.functional.pad(trained, (0, 1))
        return scores_at(
            model,
            before,
            ids[:, 1:][trained],
            vocabulary=self._vocabulary,
            temperature=temperature,
            parts=batch.parts,
            input_ids=ids,
            attention_mask=attention,
        )


def check_head(
    head: Callable[[Any, Batch, float], Scores], model: Any, folder: str | Path, vocabulary: int
) -> None:
    """Raises ValueError where ``head`` gives two sequences of one batch other log-probabilities
    than the model itself gives each of them."""
    check_vocabulary(folder, model, vocabulary)
    samples = [written(ids) for ids in sequences(vocabulary)]
    with torch.inference_mode():
        logprobs, _ = head(model, Batch(range(len(samples)), samples), 1.0)
    check_numbers(folder, model, samples, vocabulary, logprobs)


class PickHead:
    """Picks of a Plackett-Luce policy over a scorer's pointwise scores."""

    def load(self, folder: str | Path, dtype: str) -> Any:
        """A sequence classifier with one output."""
        return load_scorer(folder, dtype)

    def shape(self, sample: Sample) -> tuple[int, int]:
        """A row per candidate."""
        return len(sample.inputs), max(map(len, sample.inputs))

    def __call__(self, model: Any, batch: Batch, temperature: float) -> Scores:
        """Log-probabilities of the picks among the candidates left."""
        scores = score_rows(model, [row for sample in batch.samples for row in sample.inputs])
        logprobs, entropies = [], []
        start = 0
        for sample in batch.samples:
            own = scores[start : start + len(sample.inputs)]
            start += len(sample.inputs)
            picks = torch.tensor(sample.ids)
            table = pick_table(own / (temperature or 1.0), picks)
            logprobs.append(table.gather(1, picks[:, None])[:, 0])
            entropies.append(_entropy(table.detach()))
        return torch.cat(logprobs), torch.cat(entropies)


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """Of a micro-batch: tokens of a forward pass, and trained tokens whose logits exist at once."""

    batch_tokens: int
    logit_tokens: int


def micro_batches(samples: Sequence[Sample], head: Head, bounds: BatchBounds) -> Iterator[Batch]:
    """Samples sorted by length and cut so that a padded batch stays within the token bound."""
    shapes = [head.shape(sample) for sample in samples]
    order = sorted(range(len(samples)), key=lambda index: shapes[index][1])
    start = 0
    while start < len(order):
        end = start + 1
        rows = shapes[order[start]][0]
        while end < len(order):
            more, width = shapes[order[end]]
            if (rows + more) * width > bounds.batch_tokens:
                break
            rows += more
            end += 1
        yield _cut(order[start:end], [samples[index] for index in order[start:end]], bounds)
        start = end


def _cut(indices: Sequence[int], samples: Sequence[Sample], bounds: BatchBounds) -> Batch:
    trained = sum(sum(sample.loss_mask) for sample in samples)
    return Batch(indices, samples, max(1, ceil(trained / bounds.logit_tokens)))


def batches_at(
    samples: Sequence[Sample], places: Sequence[int], head: Head, bounds: BatchBounds
) -> Iterator[Batch]:
    """Micro-batches of the samples at ``places`` alone."""
    for batch in micro_batches([samples[place] for place in places], head, bounds):
        yield Batch([places[index] for index in batch.indices], batch.samples, batch.parts)


def right_padded(rows: Sequence[Sequence[int]], *, fill: int) -> tuple[torch.Tensor, torch.Tensor]:
    """``rows`` as one tensor [rows, longest] and its attention mask."""
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), fill, dtype=torch.long)
    attention = torch.zeros(len(rows), width, dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
        attention[number, : len(row)] = 1
    return ids, attention


def score_rows(model: Any, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Scores [rows] of a scorer, in one forward pass.

    Raises ValueError for a row that ends with the padding token: models that read their score at
    the last token would look for it one place too early.
    """
    pad = model.config.pad_token_id
    if any(row[-1] == pad for row in rows):
        raise ValueError(f"a pair ends with the padding token {pad}; its score would be misread")
    ids, attention = right_padded(rows, fill=pad)
    ids, attention = ids.to(model.device), attention.to(model.device)
    return at_least_float32(model(input_ids=ids, attention_mask=attention).logits[:, 0])


def pick_table(scores: torch.Tensor, picks: torch.Tensor) -> torch.Tensor:
    """Log-probabilities [picks, candidates] at each pick; minus infinity for what was picked
    before. ``scores`` are [candidates], after temperature."""
    count = len(picks)
    earlier = torch.ones(count, count, dtype=torch.bool).tril(-1)
    taken = torch.zeros(count, len(scores), dtype=torch.bool)
    rows, columns = earlier.nonzero(as_tuple=True)
    taken[rows, picks[columns]] = True
    left = scores.expand(count, -1).masked_fill(taken, -torch.inf)
    return torch.log_softmax(left, dim=-1)


def _entropy(table: torch.Tensor) -> torch.Tensor:
    terms = table.exp() * table
    return -terms.masked_fill(table.isneginf(), 0.0).sum(dim=-1)
