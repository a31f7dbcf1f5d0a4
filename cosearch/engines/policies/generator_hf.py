"""A policy's sampler over a Hugging Face causal language model: seeded per request, batched.

Each request draws from its own stream of uniforms, so a sample depends on its seed and its
prompt, not on what shared its batch. Log-probabilities are taken after temperature over the whole
vocabulary, as the trainer takes them; evaluation alone may restrict it by top-p or top-k.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cosearch.core.protocols import Generate
from cosearch.core.types import Generation, Sampling
from cosearch.engines.loading import at_least_float32, check_device, load_causal_lm
from cosearch.engines.policies.draws import uniforms
from cosearch.engines.policies.kept import BatchCache, KeptTurn, KeptTurns
from cosearch.engines.policies.look import (
    GIVEN,
    check_numbers,
    check_vocabulary,
    sequences,
    written,
)
from cosearch.engines.policies.weights import checksum, load_exactly


class HfGenerator:
    """An engine for ``Generate`` requests. ``batch_tokens`` bounds the prompts of a forward pass,
    and those whose keys and values are kept for the next turn.

    On a GPU the model and its cache stay there; tokens are chosen on the CPU.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        vocabulary: int,
        eos_ids: frozenset[int],
        batch_tokens: int,
        dtype: str,
        device: str = "cpu",
    ) -> None:
        check_device(f"{folder}", device)
        self.model = load_causal_lm(folder, dtype).to(device)
        self.device = torch.device(device)
        self.dtype = dtype
        self._eos_ids = eos_ids
        self._batch_tokens = batch_tokens
        self._padded = slice(vocabulary, None)
        """Rows of the output layer without a token. Their logits are masked before sampling."""
        self.weights = 0
        self.shares_device = self.direct = False
        self._kept: dict[str, KeptTurns] = {}
        """What the last call of every role has computed with the present weights."""
        self._keeps = True
        self._look(folder, vocabulary)

    def __call__(self, requests: Sequence[Generate]) -> list[Generation]:
        """Generations in the order of ``requests``, which are of one role. A prompt that goes on
        from a turn of the role's last call runs its new tokens only."""
        if not requests:
            return []
        generations: dict[int, Generation] = {}
        role = requests[0].role
        last, kept = self._kept.get(role, KeptTurns(0)), KeptTurns(self._batch_tokens)
        turns = [last.find(request.prompt_ids) for request in requests]
        for places in self._batches(requests, turns):
            asked = [requests[place] for place in places]
            batch, sampled = self._sample(asked, [turns[place] for place in places], last)
            generations.update(zip(places, sampled, strict=True))
            if self._keeps:
                kept.keep(
                    batch, [(*r.prompt_ids, *g.ids) for r, g in zip(asked, sampled, strict=True)]
                )
        self._kept[role] = kept
        return [generations[place] for place in range(len(requests))]

    def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> int:
        """Take over ``weights`` (every parameter must be named) as version ``version``; returns
        their bytes. Raises RuntimeError if one is missing or did not arrive."""
        self._kept.clear()
        moved = load_exactly(self.model, weights, self.dtype)
        self.weights = version
        return moved

    def probe(self, measure: object) -> None:
        """Do nothing, because this engine computes as the trainers do."""

    def checksum(self) -> str:
        """SHA-256 over all weights. It shows whether the trainer's weights have arrived."""
        return checksum(self.model.state_dict())

    def sleep(self, *, discard: bool) -> None:
        """Drop what is kept from turn to turn. The weights stay, because this engine shares its
        device with no trainer."""
        self._kept.clear()

    def close(self) -> None:
        """Do nothing, because this engine started no process."""

    def _look(self, folder: str | Path, vocabulary: int) -> None:
        """Raises ValueError where a batch of two lengths, padded and with a cache, gives other
        log-probabilities than the model alone. Where only a second turn does, nothing is kept."""
        check_vocabulary(folder, self.model, vocabulary)
        first = [
            Generate("look", tuple(ids), Sampling(0.0, 1.0, 0, GIVEN + number), 0)
            for number, ids in enumerate(sequences(vocabulary))
        ]
        found = self._check(folder, first, vocabulary)
        second = [
            replace(request, prompt_ids=(*request.prompt_ids, *generation.ids, *request.prompt_ids))
            for request, generation in zip(first, found, strict=True)
        ]
        try:
            self._check(folder, second, vocabulary)
        except ValueError:
            self._keeps = False
        self._kept.clear()

    def _check(
        self, folder: str | Path, requests: Sequence[Generate], vocabulary: int
    ) -> list[Generation]:
        found = self(requests)
        samples = [
            written([*request.prompt_ids, *generation.ids], len(request.prompt_ids))
            for request, generation in zip(requests, found, strict=True)
        ]
        logprobs = torch.tensor([value for one in found for value in one.logprobs])
        check_numbers(folder, self.model, samples, vocabulary, logprobs)
        return found

    def _batches(
        self, requests: Sequence[Generate], turns: Sequence[KeptTurn | None]
    ) -> Iterator[list[int]]:
        """Places of requests that run together: equal sampling, turns of one batch, similar length,
        bounded tokens."""
        kinds = [
            (_decoding(request.sampling), turn.batch if turn else -1)
            for request, turn in zip(requests, turns, strict=True)
        ]
        order = sorted(range(len(requests)), key=lambda i: (kinds[i], len(requests[i].prompt_ids)))
        batch: list[int] = []
        for place in order:
            tokens = (len(batch) + 1) * len(requests[place].prompt_ids)
            if batch and (kinds[batch[0]] != kinds[place] or tokens > self._batch_tokens):
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    @torch.inference_mode()
    def _sample(
        self, requests: Sequence[Generate], turns: Sequence[KeptTurn | None], kept: KeptTurns
    ) -> tuple[BatchCache, list[Generation]]:
        """Generations of ``requests``, and their keys and values by slot. ``turns`` of ``kept`` are
        what the prompts go on from: all of them, or none."""
        sampling = requests[0].sampling
        limits = [request.sampling.max_tokens for request in requests]
        draws = np.stack([uniforms(request.seed, max(limits)) for request in requests])
        ids: list[list[int]] = [[] for _ in requests]
        logprobs: list[list[float]] = [[] for _ in requests]
        stopped = [False] * len(requests)
        prompts = [request.prompt_ids for request in requests]
        batch, positions, logits = self._prefill(prompts, turns, kept, max(limits))
        for step in range(max(limits)):
            rows = batch.places
            tokens, scores = _choose(logits, torch.from_numpy(draws[rows, step]), sampling)
            for row, token, score in zip(rows, tokens.tolist(), scores.tolist(), strict=True):
                ids[row].append(token)
                logprobs[row].append(score)
                stopped[row] = token in self._eos_ids
            alive = [n for n, row in enumerate(rows) if not stopped[row] and step + 1 < limits[row]]
            if not alive:
                break
            going_on = batch.select(alive)
            positions = positions[going_on] + 1
            output = self._forward(tokens[going_on][:, None], batch.grow(), positions, batch.cache)
            logits = self._mask_padding(output.logits[:, -1])
        return batch, [
            Generation(tuple(i), tuple(p), s, request.sampling, self.weights)
            for i, p, s, request in zip(ids, logprobs, stopped, requests, strict=True)
        ]

    def _prefill(
        self,
        prompts: Sequence[tuple[int, ...]],
        turns: Sequence[KeptTurn | None],
        kept: KeptTurns,
        free: int,
    ) -> tuple[BatchCache, torch.Tensor, torch.Tensor]:
        """A batch with room for ``free`` tokens a row, last positions [B, 1] and next-token logits
        [B, V]. Equal prompts (the samples of one question) are run once and then repeated."""
        unique = {prompt: turn for prompt, turn in zip(prompts, turns, strict=True)}
        place = {prompt: row for row, prompt in enumerate(unique)}
        rows = torch.tensor([place[prompt] for prompt in prompts])
        known = [turn for turn in unique.values() if turn]
        new = [prompt[turn.computed if turn else 0 :] for prompt, turn in unique.items()]
        width = max(map(len, new))
        ids = torch.zeros(len(new), width, dtype=torch.long)
        mask = torch.zeros(len(new), width, dtype=torch.long)
        for row, tokens in enumerate(new):
            ids[row, width - len(tokens) :] = torch.tensor(tokens)
            mask[row, width - len(tokens) :] = 1
        cache = None
        if known:
            cache, before = kept.gather(known, width)
            mask = torch.cat([before, mask], dim=1)
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -width:]
        output = self._forward(ids, mask, positions, cache, logits_to_keep=1)
        cache = output.get("past_key_values")
        if not hasattr(cache, "batch_select_indices"):
            raise ValueError(
                f"{self.model.name_or_path}: {type(self.model).__name__} keeps no cache of keys and"
                " values, by which a batch goes on token by token; name a model with attention"
            )
        logits = self._mask_padding(output.logits[:, -1])
        batch = BatchCache(cache, mask, rows, free, self.device)
        return batch, positions[rows, -1:], logits[rows]

    def _forward(
        self,
        tokens: torch.Tensor,
        mask: torch.Tensor,
        positions: torch.Tensor,
        cache: Any,
        **more: int,
    ) -> Any:
        return self.model(
            input_ids=tokens.to(self.device),
            attention_mask=mask.to(self.device),
            position_ids=positions.to(self.device),
            past_key_values=cache,
            use_cache=True,
            **more,
        )

    def _mask_padding(self, logits: torch.Tensor) -> torch.Tensor:
        logits = at_least_float32(logits).cpu()
        logits[:, self._padded] = -torch.inf
        return logits


def _decoding(sampling: Sampling) -> tuple[float, float, int]:
    return sampling.temperature, sampling.top_p, sampling.top_k


def _choose(
    logits: torch.Tensor, draws: torch.Tensor, sampling: Sampling
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens [B] and their log-probabilities [B] under the full distribution after temperature."""
    greedy = sampling.temperature == 0
    logprobs = torch.log_softmax(logits if greedy else logits / sampling.temperature, dim=-1)
    if greedy:
        tokens = logprobs.argmax(dim=-1)
    else:
        mass = _restrict(logprobs, sampling).exp().double().cumsum(dim=-1)
        threshold = draws[:, None] * mass[:, -1:]
        tokens = torch.searchsorted(mass, threshold, right=True)[:, 0]
        tokens = tokens.clamp(max=logits.shape[-1] - 1)
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


def _restrict(logprobs: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Log-probabilities with everything outside top-k and top-p at minus infinity."""
    if sampling.top_k == 0 and sampling.top_p == 1:
        return logprobs
    ordered, tokens = logprobs.sort(dim=-1, descending=True)
    before = ordered.exp().cumsum(dim=-1) - ordered.exp()
    drop = before >= sampling.top_p
    if sampling.top_k:
        drop[:, sampling.top_k :] = True
    return logprobs.masked_fill(torch.zeros_like(drop).scatter(1, tokens, drop), -torch.inf)
