"""Tells from digests whether every replica of an engine holds the weights that it was given.

Before a hand-over all weights are blanked. What is blank afterwards has not arrived, and what
differs between two replicas has arrived in one of them at most. The first hand-over proves the way
itself: a trainer that has made no step gives the engine the weights of the engine's own folder, so
afterwards each tensor must be, to the last bit, the one that vLLM read there.
"""

from collections.abc import Iterable, Iterator, Mapping

Digests = Mapping[str, str]
"""Digest of every tensor of every worker, under the names of ``WeightsWorker.weight_digests``."""


class Arrival:
    """``own`` are digests of the weights that vLLM read from its folder, ``blank`` those of blank
    tensors."""

    def __init__(self, own: Digests, blank: Digests) -> None:
        self._own = own
        self._blank = blank

    def prove(self, found: Digests) -> None:
        """Raises RuntimeError unless ``found`` are the folder's own weights."""
        wrong = [name for name, digest in self._own.items() if found.get(name) != digest]
        if wrong:
            raise RuntimeError(
                "vLLM was given the weights of its own folder, and holds others:"
                f" {_told(wrong, len(found))}"
            )

    def check(self, found: Digests) -> None:
        """Raises RuntimeError that names what did not arrive, and in which replica."""
        blank = [
            name for name, digest in found.items() if digest == self._blank[name] != self._own[name]
        ]
        if blank:
            raise RuntimeError(f"vLLM misses weights: {_told(blank, len(found))}")
        uneven = list(_uneven(found))
        if uneven:
            raise RuntimeError(
                f"replicas were given the same weights and hold others: {_told(uneven, len(found))}"
            )


def _uneven(found: Digests) -> Iterator[str]:
    """Names whose digest is not that of the first replica."""
    first: dict[str, str] = {}
    for name, digest in sorted(found.items()):
        if first.setdefault(name.partition(":")[2], digest) != digest:
            yield name


def _told(names: Iterable[str], count: int) -> str:
    """``names`` in words, at most three of them."""
    places = [_place(name) for name in names]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return f"{', '.join(places[:3])}{more} (of {count} tensors)"


def _place(name: str) -> str:
    ranks, _, tensor = name.rpartition(":")
    return f"{tensor} in replica {ranks.split(':')[0].removeprefix('dp')}"
