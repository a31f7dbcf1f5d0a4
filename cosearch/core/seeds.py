"""Seeds by name: a draw depends on what it is for, never on what was drawn before it."""

import hashlib


def derive(*parts: int | str) -> int:
    """A 63-bit seed from the parts, the same on every machine and in every process."""
    return int.from_bytes(hashlib.sha256(ascii(parts).encode()).digest()[:8], "big") >> 1
