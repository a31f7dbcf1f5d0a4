"""A policy's sampler over a Hugging Face causal language model: seeded per request, batched.

Each request draws from its own stream of uniforms, so a sample depends on its seed and its
prompt, not on what shared its batch. Log-probabilities are taken after temperature over the whole
vocabulary, as the trainer takes them; evaluation alone may restrict it by top-p or top-k.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cosearch.core.protocols import Generate
from cosearch.core.types import Generation, Sampling
from cosearch.engines.loading import at_least_float32, check_device, load_causal_lm
from cosearch.engines.policies.draws import uniforms
from cosearch.engines.policies.look import (
    GIVEN,
    check_numbers,
    check_vocabulary,
    sequences,
    written,
)
from cosearch.engines.policies.weights import checksum, load_exactly


class HfGenerator:
    """An engine for ``Generate`` requests; ``batch_tokens`` bounds the prompt of a forward pass.

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
        self._look(folder, vocabulary)

    def __call__(self, requests: Sequence[Generate]) -> list[Generation]:
        """Generations in the order of ``requests``."""
        generations: dict[int, Generation] = {}
        for batch in self._batches(requests):
            sampled = self._sample([requests[index] for index in batch])
            generations.update(zip(batch, sampled, strict=True))
        return [generations[index] for index in range(len(requests))]

    def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> int:
        """Take over ``weights`` (every parameter must be named) as version ``version``; returns
        their bytes. Raises RuntimeError if one is missing or did not arrive."""
        moved = load_exactly(self.model, weights, self.dtype)
        self.weights = version
        return moved

    def probe(self, measure: object) -> None:
        """Do nothing, because this engine computes as the trainers do."""

    def checksum(self) -> str:
        """SHA-256 over all weights. It shows whether the trainer's weights have arrived."""
        return checksum(self.model.state_dict())

    def sleep(self, *, discard: bool) -> None:
        """Do nothing, because this engine shares its device with no trainer."""

    def close(self) -> None:
        """Do nothing, because this engine started no process."""

    def _look(self, folder: str | Path, vocabulary: int) -> None:
        """Raises ValueError where a batch of two lengths, padded and with a cache, gives other
        log-probabilities than the model alone."""
        check_vocabulary(folder, self.model, vocabulary)
        requests = [
            Generate("look", tuple(ids), Sampling(0.0, 1.0, 0, GIVEN + number), 0)
            for number, ids in enumerate(sequences(vocabulary))
        ]
        found = self._sample(requests)
        samples = [
            written([*request.prompt_ids, *generation.ids], len(request.prompt_ids))
            for request, generation in zip(requests, found, strict=True)
        ]
        logprobs = torch.tensor([value for one in found for value in one.logprobs])
        check_numbers(folder, self.model, samples, vocabulary, logprobs)

    def _batches(self, requests: Sequence[Generate]) -> Iterator[list[int]]:
        """Indices of requests that run together: equal sampling, similar length, bounded tokens."""
        order = sorted(
            range(len(requests)),
            key=lambda i: (_decoding(requests[i].sampling), len(requests[i].prompt_ids)),
        )
        batch: list[int] = []
        for index in order:
            request = requests[index]
            if batch and (
                _decoding(requests[batch[0]].sampling) != _decoding(request.sampling)
                or (len(batch) + 1) * len(request.prompt_ids) > self._batch_tokens
            ):
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    @torch.inference_mode()
    def _sample(self, requests: Sequence[Generate]) -> list[Generation]:
        sampling = requests[0].sampling
        limits = [request.sampling.max_tokens for request in requests]
        draws = np.stack([uniforms(request.seed, max(limits)) for request in requests])
        ids: list[list[int]] = [[] for _ in requests]
        logprobs: list[list[float]] = [[] for _ in requests]
        stopped = [False] * len(requests)
        rows = list(range(len(requests)))
        mask, positions, logits, cache = self._prefill([r.prompt_ids for r in requests])
        for step in range(max(limits)):
            tokens, scores = _choose(logits, torch.from_numpy(draws[rows, step]), sampling)
            for row, token, score in zip(rows, tokens.tolist(), scores.tolist(), strict=True):
                ids[row].append(token)
                logprobs[row].append(score)
                stopped[row] = token in self._eos_ids
            alive = [n for n, row in enumerate(rows) if not stopped[row] and step + 1 < limits[row]]
            if not alive:
                break
            if len(alive) < len(rows):
                keep = torch.tensor(alive)
                cache.batch_select_indices(keep.to(self.device))
                mask, positions, tokens = mask[keep], positions[keep], tokens[keep]
                rows = [rows[n] for n in alive]
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], dim=1)
            positions = positions + 1
            logits = self._forward(tokens[:, None], mask, positions, cache)
        return [
            Generation(tuple(i), tuple(p), s, request.sampling, self.weights)
            for i, p, s, request in zip(ids, logprobs, stopped, requests, strict=True)
        ]

    def _prefill(
        self, prompts: Sequence[Sequence[int]]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Any]:
        """Attention mask [B, L], last positions [B, 1], next-token logits [B, V] and the cache.

        Equal prompts (the samples of one question) are run once and then repeated.
        """
        unique = list(dict.fromkeys(tuple(prompt) for prompt in prompts))
        place = {prompt: row for row, prompt in enumerate(unique)}
        rows = torch.tensor([place[tuple(prompt)] for prompt in prompts])
        width = max(map(len, unique))
        ids = torch.zeros(len(unique), width, dtype=torch.long)
        mask = torch.zeros(len(unique), width, dtype=torch.long)
        for row, prompt in enumerate(unique):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        output = self.model(
            input_ids=ids.to(self.device),
            attention_mask=mask.to(self.device),
            position_ids=positions.to(self.device),
            use_cache=True,
            logits_to_keep=1,
        )
        cache = output.get("past_key_values")
        if not hasattr(cache, "batch_select_indices"):
            raise ValueError(
                f"{self.model.name_or_path}: {type(self.model).__name__} keeps no cache of keys and"
                " values, by which a batch goes on token by token; name a model with attention"
            )
        if len(unique) < len(prompts):
            cache.batch_select_indices(rows.to(self.device))
        logits = self._mask_padding(output.logits[:, -1])
        return mask[rows], positions[rows, -1:], logits[rows], cache

    def _forward(
        self, tokens: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Any
    ) -> torch.Tensor:
        output = self.model(
            input_ids=tokens.to(self.device),
            attention_mask=mask.to(self.device),
            position_ids=positions.to(self.device),
            past_key_values=cache,
            use_cache=True,
        )
        return self._mask_padding(output.logits[:, -1])

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
