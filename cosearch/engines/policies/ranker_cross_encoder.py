"""A scoring policy's sampler: pairs are scored, then candidates are picked one after another.

The policy is Plackett-Luce over the scores. Each request draws from its own stream, and equal
pairs (the samples of one question) are scored once.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from cosearch.core.protocols import Choose
from cosearch.core.types import Generation
from cosearch.engines.loading import check_device, load_scorer
from cosearch.engines.policies.draws import uniforms
from cosearch.engines.policies.heads import pick_table, score_rows
from cosearch.engines.policies.weights import checksum, load_exactly

PairIds = tuple[int, ...]
"""Token ids of one pair of query and passage."""


class CrossEncoder:
    """An engine for ``Choose`` requests; ``batch_tokens`` bounds the pairs of a forward pass."""

    def __init__(
        self, folder: str | Path, *, batch_tokens: int, dtype: str, device: str = "cpu"
    ) -> None:
        check_device(f"{folder}", device)
        self._model = load_scorer(folder, dtype).to(device)
        self.dtype = dtype
        self._batch_tokens = batch_tokens
        self.weights = 0
        self.shares_device = self.direct = False

    @torch.inference_mode()
    def __call__(self, requests: Sequence[Choose]) -> list[Generation]:
        """Picks in the order of ``requests``."""
        scores = self._score(list(dict.fromkeys(p for r in requests for p in r.inputs)))
        return [
            self._pick(request, torch.stack([scores[pair] for pair in request.inputs]))
            for request in requests
        ]

    def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> int:
        """Take over ``weights`` (every parameter must be named) as version ``version``; returns
        their bytes. Raises RuntimeError if one is missing or did not arrive."""
        moved = load_exactly(self._model, weights, self.dtype)
        self.weights = version
        return moved

    def probe(self, measure: object) -> None:
        """Do nothing, because this engine computes as the trainers do."""

    def checksum(self) -> str:
        """SHA-256 over all weights. It shows whether the trainer's weights have arrived."""
        return checksum(self._model.state_dict())

    def sleep(self, *, discard: bool) -> None:
        """Do nothing, because this engine shares its device with no trainer."""

    def close(self) -> None:
        """Do nothing, because this engine started no process."""

    def _score(self, pairs: Sequence[PairIds]) -> dict[PairIds, torch.Tensor]:
        scores: dict[PairIds, torch.Tensor] = {}
        for batch in self._batches(sorted(pairs, key=len)):
            scores.update(zip(batch, score_rows(self._model, batch).cpu(), strict=True))
        return scores

    def _batches(self, pairs: Sequence[PairIds]) -> Iterator[list[PairIds]]:
        batch: list[PairIds] = []
        for pair in pairs:
            if batch and (len(batch) + 1) * len(pair) > self._batch_tokens:
                yield batch
                batch = []
            batch.append(pair)
        if batch:
            yield batch

    def _pick(self, request: Choose, scores: torch.Tensor) -> Generation:
        """The picks of one request and their log-probabilities."""
        temperature = request.sampling.temperature
        scaled = scores / (temperature or 1.0)
        if temperature == 0:
            picks = scores.sort(descending=True, stable=True).indices[: request.count]
        else:
            picks = _draw(scaled, uniforms(request.seed, request.count).tolist())
        logprobs = pick_table(scaled, picks).gather(1, picks[:, None])[:, 0]
        return Generation(
            tuple(picks.tolist()), tuple(logprobs.tolist()), True, request.sampling, self.weights
        )


def _draw(scores: torch.Tensor, draws: Sequence[float]) -> torch.Tensor:
    """Positions drawn without replacement, one per draw from [0, 1)."""
    left = scores.double()
    picks: list[int] = []
    for draw in draws:
        mass = torch.softmax(left, dim=-1).cumsum(dim=-1)
        pick = int(torch.searchsorted(mass, draw * mass[-1], right=True))
        if pick == len(left):  # a draw that rounds to the whole mass
            pick = int(left.argmax())
        picks.append(pick)
        left = left.clone()
        left[pick] = -torch.inf
    return torch.tensor(picks)
