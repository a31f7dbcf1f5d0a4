"""Weights that go from a trainer to a sampler in one process, and the checksum that compares
them."""

import hashlib
from collections.abc import Mapping

import torch


def checksum(weights: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 over names and bytes of ``weights`` in name order."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].detach().contiguous().view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()


def load_exactly(model: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> int:
    """Copy ``weights`` into ``model`` in place; returns their bytes. Raises RuntimeError if one is
    missing or unknown, or if the model then holds others."""
    model.load_state_dict(weights, strict=True)
    if checksum(model.state_dict()) != checksum(weights):
        raise RuntimeError("the sampler holds other weights than it was given")
    return sum(value.nbytes for value in weights.values())
