"""The checksum by which a sampler and a trainer tell that they hold the same weights."""

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
