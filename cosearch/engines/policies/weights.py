"""Weights in the type of the one who takes them over, and the checksum by which a sampler and a
trainer tell that they hold the same."""

import hashlib
from collections.abc import Mapping

import torch

from cosearch.engines.loading import DTYPES


def in_type(weights: Mapping[str, torch.Tensor], dtype: str | None) -> Mapping[str, torch.Tensor]:
    """``weights`` as numbers of type ``dtype``; whole numbers, and all without a type, stay."""
    if dtype is None:
        return weights
    return {
        name: value.to(DTYPES[dtype]) if value.is_floating_point() else value
        for name, value in weights.items()
    }


def checksum(weights: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 over names and bytes of ``weights`` in name order."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].detach().contiguous().view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()
