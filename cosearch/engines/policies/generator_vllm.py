"""A policy's sampler over vLLM: seeded per request, log-probabilities of the whole distribution.

After the updates of a round the trainer's weights go to the engine in place. Digests of all tensors
of all replicas then show that they arrived (``arrival``). As a second sign the trainer measures a
few greedy continuations of the engine: what digests do not cover, such as a table of rotations or
a cache of prefixes, must not have moved them apart further than they were with the first weights.
"""

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from safetensors.torch import save_file

from cosearch.core.protocols import Generate
from cosearch.core.types import Generation, Sample, Sampling
from cosearch.engines.loading import DTYPES
from cosearch.engines.policies.arrival import Arrival, Digests
from cosearch.params.engines import Vllm

Written = tuple[tuple[int, ...], tuple[float, ...]]
"""Sampled ids and their log-probabilities."""
WEIGHTS, CACHE = "weights", "kv_cache"
"""What an engine holds on a device, by vLLM's names."""
PROMPT_TOKENS = 8


class VllmEngine(Protocol):
    """What a sampler asks of vLLM. ``max_tokens`` bounds a prompt with its completion."""

    max_tokens: int

    def write(self, requests: Sequence[Generate], *, stops: bool) -> list[Written]:
        """Completions in order, the stop token included; ``stops`` False writes to the limit."""

    def call(self, method: str, **values: Any) -> None:
        """Call ``method`` of every worker of every replica."""

    def forget(self) -> None:
        """Drop what was computed with other weights."""

    def digests(self) -> Digests:
        """Digests of all tensors of all replicas."""

    def sleep(self, *, discard: bool) -> None:
        """Free the device; with ``discard`` the weights are not kept anywhere."""

    def wake(self, part: str) -> None:
        """Take the device again for ``WEIGHTS`` or ``CACHE``."""

    def close(self) -> None:
        """End the engine."""


@runtime_checkable
class Sender(Protocol):
    """A trainer whose weights go from its devices to vLLM's."""

    def send(self, backend: str, client: Any, workers: int) -> int:
        """Send all weights by vLLM's engine ``backend`` to ``workers``; returns their bytes."""


class VllmGenerator:
    """An engine for ``Generate`` requests over vLLM. ``dtype`` is the type of its weights, and
    ``vocabulary`` the number of its tokens."""

    def __init__(
        self,
        engine: VllmEngine,
        *,
        dtype: str,
        vocabulary: int,
        eos_ids: frozenset[int],
        rules: Vllm,
    ) -> None:
        self.dtype = dtype
        self.direct = rules.transfer != "file"
        self.weights = 0
        self.gap = 0.0
        """Mean difference of the last probe, in nats."""
        self.baseline: float | None = None
        """That of the first probe; at least the type's rounding."""
        self._engine = engine
        self._vocabulary = vocabulary
        self._eos_ids = eos_ids
        self._rules = rules.probe
        self._transfer = rules.transfer
        self._workers = rules.replicas * rules.tensor_parallel
        self.shares_device = rules.shared_gpus and torch.cuda.is_available()
        self._asleep: tuple[str, ...] = ()
        self._gone = False
        self._own: Digests | None = None
        self._arrival: Arrival | None = None
        self._names: frozenset[str] = frozenset()

    def __call__(self, requests: Sequence[Generate]) -> list[Generation]:
        """Generations in the order of ``requests``.

        Raises ValueError for a request that vLLM would cut short, and for top-p or top-k: vLLM's
        log-probabilities would be those of the restricted distribution.
        """
        for request in requests:
            self._check(request)
        if not requests:
            return []
        return [
            Generation(ids, logprobs, ids[-1] in self._eos_ids, request.sampling, self.weights)
            for request, (ids, logprobs) in zip(
                requests, self._write(requests, stops=True), strict=True
            )
        ]

    def load_weights(self, weights: "Mapping[str, torch.Tensor] | Sender", version: int) -> int:
        """Take over ``weights`` (every parameter must be named) as version ``version``, from a file
        or from a trainer's devices; returns the bytes that were moved.

        The first ones must be those of the engine's own folder, as version 0. Raises RuntimeError
        if a weight is missing, or if a replica does not hold what it was given.
        """
        names = frozenset(() if isinstance(weights, Sender) else weights)
        if missing := sorted(self._names - names):
            raise RuntimeError(f"Missing keys of the hand-over: {', '.join(missing[:3])}")
        self._learn_own()
        self._wake(WEIGHTS)
        blank = self._blank()
        moved = self._fetch(weights) if isinstance(weights, Sender) else self._move(weights)
        self._engine.forget()
        found = self._engine.digests()
        if self._arrival is None:
            if version:
                raise RuntimeError(f"the first hand-over is of version {version}, and 0 is needed")
            assert self._own is not None
            arrival = Arrival(self._own, blank)
            arrival.prove(found)
            self._arrival, self._names = arrival, names
        self._arrival.check(found)
        self.weights, self._gone = version, False
        return moved

    def probe(self, measure: Callable[[Sequence[Sample]], list[list[float]]]) -> None:
        """Hold greedy continuations against what the trainer of the same weights measures.

        Raises RuntimeError if they differ by more than ``rules.factor`` times the first probe.
        """
        requests = self._probes()
        written = self._write(requests, stops=False)
        samples = [_sample(r, w) for r, w in zip(requests, written, strict=True)]
        gaps = [
            abs(own - other)
            for sample, values in zip(samples, measure(samples), strict=True)
            for own, other, flag in zip(sample.old_logprobs, values, sample.loss_mask, strict=True)
            if flag
        ]
        self.gap = sum(gaps) / len(gaps)
        if self.baseline is None:
            self.baseline = max(self.gap, torch.finfo(DTYPES[self.dtype]).eps)
        if not self.gap <= self._rules.factor * self.baseline:
            raise RuntimeError(
                f"vLLM and the trainer differ by {self.gap:.2g} nats over greedy continuations:"
                f" over {self._rules.factor:g} times the {self.baseline:.2g} of the first weights"
            )

    def sleep(self, *, discard: bool) -> None:
        """Free the GPUs that the trainer uses too. With ``discard`` no copy of the weights is kept,
        and new ones must come before the next request. Does nothing where no GPU is shared."""
        if self.shares_device and not self._asleep:
            if discard:
                self._learn_own()
            self._engine.sleep(discard=discard)
            self._asleep, self._gone = (WEIGHTS, CACHE), discard

    def close(self) -> None:
        """End the engine and its processes."""
        self._engine.close()

    def _write(self, requests: Sequence[Generate], *, stops: bool) -> list[Written]:
        if self._gone:
            raise RuntimeError("the sampler gave up its weights, and nobody has given it new ones")
        self._wake(WEIGHTS, CACHE)
        return self._engine.write(requests, stops=stops)

    def _wake(self, *parts: str) -> None:
        for part in self._asleep:
            if part in parts:
                self._engine.wake(part)
        self._asleep = tuple(part for part in self._asleep if part not in parts)

    def _learn_own(self) -> None:
        """Take the digests of the engine's own weights before it loses them."""
        if self._own is None:
            self._own = self._engine.digests()

    def _blank(self) -> Digests:
        """Blank the engine; returns its digests then, the first time."""
        self._engine.call("blank_weights")
        return self._engine.digests() if self._arrival is None else {}

    def _fetch(self, sender: "Sender") -> int:
        """Let the trainer send its weights to the workers."""
        from cosearch.engines.policies.transfer_vllm import Client

        return sender.send(self._transfer, Client(self._engine), self._workers)

    def _move(self, weights: Mapping[str, torch.Tensor]) -> int:
        """Hand ``weights`` over in a file, every one by name, a tied output layer too: vLLM keeps
        the old values of a weight that is left out."""
        tensors = {
            name: value.detach().to("cpu", DTYPES[self.dtype], copy=True).contiguous()
            for name, value in weights.items()
        }
        with tempfile.TemporaryDirectory(prefix="cosearch-weights-") as folder:
            save_file(tensors, Path(folder) / "model.safetensors", metadata={"format": "pt"})
            self._engine.call("reload_weights", weights_path=folder)
        return sum(tensor.nbytes for tensor in tensors.values())

    def _probes(self) -> list[Generate]:
        """The requests of a probe, always the same."""
        draw = random.Random(0)
        sampling = Sampling(0.0, 1.0, 0, self._rules.tokens)
        tokens = range(self._vocabulary)
        return [
            Generate("probe", tuple(draw.choices(tokens, k=PROMPT_TOKENS)), sampling, number)
            for number in range(self._rules.prompts)
        ]

    def _check(self, request: Generate) -> None:
        sampling = request.sampling
        if sampling.temperature > 0 and (sampling.top_p < 1 or sampling.top_k > 0):
            raise ValueError(
                f"top_p={sampling.top_p}, top_k={sampling.top_k}: the vllm engine samples from the"
                " whole distribution only; choose engine hf"
            )
        tokens = len(request.prompt_ids) + sampling.max_tokens
        if tokens > self._engine.max_tokens:
            raise ValueError(
                f"a {request.role} request of {tokens} tokens exceeds max_model_tokens ="
                f" {self._engine.max_tokens}"
            )


def _sample(request: Generate, written: Written) -> Sample:
    """A continuation as trainers measure it."""
    ids, logprobs = written
    before = len(request.prompt_ids)
    return Sample(
        (*request.prompt_ids, *ids),
        (0,) * before + (1,) * len(ids),
        (0.0,) * before + logprobs,
        (0.0,) * (before + len(ids)),
    )
