"""Weights that go from a trainer to a sampler, in the type of the one who takes them over, and the
checksum that compares them."""

import hashlib
from collections.abc import Mapping

import torch

from cosearch.engines.loading import DTYPES


def in_type(weights: Mapping[str, torch.Tensor], dtype: str) -> dict[str, torch.Tensor]:
    """``weights`` as numbers of type ``dtype``; whole numbers stay."""
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


def load_exactly(model: torch.nn.Module, weights: Mapping[str, torch.Tensor], dtype: str) -> int:
    """Copy ``weights``, rounded to ``dtype``, into ``model`` in place; returns their bytes. Raises
    RuntimeError if one is missing or unknown, or if the model then holds others."""
    rounded = in_type(weights, dtype)
    model.load_state_dict(rounded, strict=True)
    if checksum(model.state_dict()) != checksum(rounded):
        raise RuntimeError("the sampler holds other weights than it was given")
    return sum(value.nbytes for value in rounded.values())
