"""What vLLM's workers are asked besides their own calls: to blank their weights, and for a digest
of every tensor that they compute with.

On a GPU both are vLLM's own. On a CPU vLLM packs the weights of a linear layer for the processor
and keeps no parameter of them, so its own digests and its own reset pass them by. A packed layer is
read by its product with the identity, which is exact in any type: each sum has one term.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import torch


class WeightsWorker:
    """Calls that vLLM adds to each of its workers; ``self`` is the worker."""

    @torch.inference_mode()
    def blank_weights(self: Any) -> None:
        """Put zeros in the place of all weights, so that one which does not arrive is seen."""
        self.reset_weights()
        for _, layer, weights in _packed(self.model_runner.get_model(), self.model_config.dtype):
            layer.cpu_linear = _Blank(weights.shape[1])

    @torch.inference_mode()
    def weight_digests(self: Any) -> dict[str, str]:
        """SHA-256 of each tensor. A name begins with the worker's ranks, such as
        ``dp1:pp0:pcp0:tp0:``; ``dp`` is the replica."""
        found: dict[str, str] = self.compute_weight_checksums()
        prefix = self._weight_checksum_prefix()
        for name, _, weights in _packed(self.model_runner.get_model(), self.model_config.dtype):
            content = weights.contiguous().view(torch.uint8).numpy().tobytes()
            found[f"{prefix}{name}.packed"] = hashlib.sha256(content).hexdigest()
        return found


def _packed(model: Any, dtype: torch.dtype) -> Iterator[tuple[str, Any, torch.Tensor]]:
    """Name, layer and weights [inputs, outputs] of every layer that a CPU build has packed."""
    for name, layer in model.named_modules():
        if hasattr(layer, "cpu_linear"):
            inputs = getattr(layer, "input_size_per_partition", None) or layer.embedding_dim
            yield name, layer, layer.cpu_linear(torch.eye(inputs, dtype=dtype), layer.weight, None)


class _Blank:
    """A linear layer whose weights are zeros."""

    def __init__(self, outputs: int) -> None:
        self._outputs = outputs

    def __call__(
        self, values: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        return values.new_zeros(*values.shape[:-1], self._outputs)
