"""Seeds by name: the seed of a draw depends on its purpose, and not on the draws before it."""

import hashlib


def derive(*parts: int | str) -> int:
    """A 63-bit seed from the parts, the same on every machine and in every process."""
    return int.from_bytes(hashlib.sha256(ascii(parts).encode()).digest()[:8], "big") >> 1
