"""A policy's sampler over vLLM: seeded per request, log-probabilities of the whole distribution.

The trainer's weights go to the engine in place after each round's updates. A probe then checks that
they arrived: the engine continues a few prompts greedily, and an ordinary forward pass with the new
weights (the reference) must give the same log-probabilities. Real updates may be so small that
rounding hides a tensor that was left behind, such as a tied output layer. So the first hand-over is
rehearsed with weights that differ everywhere.
"""

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import save_file

from cosearch.core.protocols import Generate
from cosearch.core.types import Generation, Sampling
from cosearch.engines.loading import at_least_float32, load_causal_lm
from cosearch.engines.policies.weights import checksum, in_type
from cosearch.params.engines import VllmProbe

Written = tuple[tuple[int, ...], tuple[float, ...]]
"""Sampled ids and their log-probabilities."""


class VllmEngine(Protocol):
    """What a sampler asks of vLLM. ``max_tokens`` bounds a prompt with its completion."""

    max_tokens: int

    def write(self, requests: Sequence[Generate], *, stops: bool) -> list[Written]:
        """Completions in order, the stop token included; ``stops`` False writes to the limit."""

    def reload(self, folder: Path) -> None:
        """Take over the weights in ``folder`` and forget what was computed with others."""

    def sleep(self) -> None:
        """Free the device."""

    def wake(self) -> None:
        """Take the device again."""

    def close(self) -> None:
        """End the engine."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Mean differences between engine and new weights, before and after they were handed over."""

    before: float
    after: float


class Reference:
    """The weights that the engine should hold, in an ordinary model on the CPU.

    It is loaded at the first hand-over; a sampler that never learns has none.
    """

    def __init__(self, folder: str | Path, *, dtype: str, vocabulary: int) -> None:
        self._folder = folder
        self.dtype = dtype
        self._vocabulary = vocabulary
        self._model: Any = None

    @property
    def model(self) -> Any:
        """The model, with the folder's weights at first."""
        if self._model is None:
            self._model = load_causal_lm(self._folder, self.dtype)
        return self._model

    def load(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Take over ``weights``. Raises RuntimeError that names what is missing or unknown."""
        self.model.load_state_dict(weights, strict=True)

    def altered(self) -> dict[str, torch.Tensor]:
        """Weights of the same size that differ everywhere: rows moved by one, and larger."""
        state = self.model.state_dict()
        return {name: value.roll(1, 0) * 1.25 for name, value in state.items()}

    def save(self, folder: Path) -> None:
        """Write every weight by name, a tied output layer too, because vLLM keeps the old values
        of a weight that is left out."""
        state = self.model.state_dict()
        tensors = {name: value.detach().clone().contiguous() for name, value in state.items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    def probes(self, rules: VllmProbe) -> list[Generate]:
        """The requests of a probe, always the same."""
        draw = random.Random(0)
        sampling = Sampling(0.0, 1.0, 0, rules.tokens)
        return [
            Generate("probe", tuple(draw.choices(range(self._vocabulary), k=8)), sampling, number)
            for number in range(rules.prompts)
        ]

    @torch.inference_mode()
    def gap(self, request: Generate, written: Written) -> float:
        """Mean difference from what an engine wrote: of the tokens' log-probabilities, and of the
        tokens' from the likeliest ones'. Whichever is larger."""
        ids, logprobs = written
        rows = torch.tensor([[*request.prompt_ids, *ids]])
        logits = self.model(input_ids=rows, logits_to_keep=len(ids) + 1).logits[0, :-1]
        own = torch.log_softmax(at_least_float32(logits[:, : self._vocabulary]), dim=-1)
        chosen = own.gather(1, torch.tensor(ids)[:, None])[:, 0]
        difference = (chosen - torch.tensor(logprobs)).abs().mean()
        shortfall = (own.max(dim=-1).values - chosen).mean()
        return float(torch.maximum(difference, shortfall))


class VllmGenerator:
    """An engine for ``Generate`` requests over vLLM. ``probe`` is that of the last hand-over.

    ``rules.tolerance`` bounds the mean difference between engine and reference, in nats: rounding
    stays below it, and stale weights do not.
    """

    def __init__(
        self,
        engine: VllmEngine,
        reference: Reference,
        *,
        eos_ids: frozenset[int],
        rules: VllmProbe,
        shared_gpus: bool,
    ) -> None:
        self._engine = engine
        self._reference = reference
        self._eos_ids = eos_ids
        self._rules = rules
        self._shared = shared_gpus and torch.cuda.is_available()
        self._asleep = False
        self._rehearsed = False
        self._checksum: str | None = None
        self.dtype = reference.dtype
        self.probe: Probe | None = None
        self.weights = 0

    def __call__(self, requests: Sequence[Generate]) -> list[Generation]:
        """Generations in the order of ``requests``.

        Raises ValueError for a request that vLLM would cut short, and for top-p or top-k: vLLM's
        log-probabilities would be those of the restricted distribution.
        """
        for request in requests:
            self._check(request)
        if not requests:
            return []
        self.wake()
        return [
            Generation(ids, logprobs, ids[-1] in self._eos_ids, request.sampling, self.weights)
            for request, (ids, logprobs) in zip(
                requests, self._engine.write(requests, stops=True), strict=True
            )
        ]

    def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Take over ``weights`` (every parameter must be named) as version ``version``.

        An engine that slept sleeps again. Raises RuntimeError if a weight is missing, or if the
        engine does not compute with the weights it was given.
        """
        slept = self._asleep
        if not self._rehearsed:
            self._rehearse()
        rounded = in_type(weights, self.dtype)
        self._take_over(rounded)
        self._checksum = checksum({name: value.cpu() for name, value in rounded.items()})
        self.weights = version
        if slept:
            self.sleep()

    def checksum(self) -> str:
        """SHA-256 over the weights as they were handed over. The probe checks the engine itself."""
        if self._checksum is None:
            self._checksum = checksum(self._reference.model.state_dict())
        return self._checksum

    def sleep(self) -> None:
        """Free the GPUs that the trainer uses too. Does nothing where no GPU is shared."""
        if self._shared and not self._asleep:
            self._engine.sleep()
            self._asleep = True

    def wake(self) -> None:
        """End the sleep. Requests and hand-overs call this on their own."""
        if self._asleep:
            self._engine.wake()
            self._asleep = False

    def close(self) -> None:
        """End the engine and its processes."""
        self._engine.close()

    def _rehearse(self) -> None:
        """Hand over altered weights, which the probe must see at first, and then see arrive."""
        self._take_over(self._reference.altered())
        assert self.probe is not None
        if self.probe.before <= self._rules.tolerance:
            raise RuntimeError(
                f"the probe is blind: weights that differ everywhere move it by"
                f" {self.probe.before:.2g} nats, within its tolerance {self._rules.tolerance:.2g}"
            )
        self._rehearsed = True

    def _take_over(self, weights: Mapping[str, torch.Tensor]) -> None:
        self._reference.load(weights)
        self.wake()
        before = self._gap()
        with tempfile.TemporaryDirectory(prefix="cosearch-weights-") as folder:
            self._reference.save(Path(folder))
            self._engine.reload(Path(folder))
        self.probe = Probe(before, self._gap())
        if not self.probe.after <= self._rules.tolerance:
            raise RuntimeError(
                f"vLLM computes with stale weights: it differs from the new ones by"
                f" {self.probe.after:.2g} nats, more than {self._rules.tolerance:.2g}"
            )

    def _gap(self) -> float:
        requests = self._reference.probes(self._rules)
        found = self._engine.write(requests, stops=False)
        gaps = [self._reference.gap(r, w) for r, w in zip(requests, found, strict=True)]
        return sum(gaps) / len(gaps)

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
