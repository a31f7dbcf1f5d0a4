"""The random numbers that a sampler draws for one request."""

import numpy as np


def uniforms(seed: int, count: int) -> np.ndarray:
    """The stream of a request, ``count`` draws from [0, 1)."""
    return np.random.Generator(np.random.Philox(seed)).random(count, dtype=np.float64)
