"""What a round plays: epochs of seeded permutations, cut into rounds."""

import random

from cosearch.core.seeds import derive


def places_of_round(size: int, number: int, count: int, seed: int) -> list[int]:
    """The ``count`` places, of ``size``, that round ``number`` (from 0) plays.

    An epoch plays every place once, in an order of its own. A round may take the end of an epoch
    and the beginning of the next one; what it has played already waits for the end of the next
    epoch, so no round plays a place twice. Raises ValueError for a round larger than ``size``.
    """
    if count > size:
        raise ValueError(f"a round plays {count}, and there are {size}")
    start, played, order = number * count, list[int](), list[int]()
    last = (start + count - 1) // size
    for epoch in range(last + 1):
        begun = epoch * size % count
        waiting = frozenset(order[size - begun :])
        played, order = order, list(range(size))
        random.Random(derive(seed, "order", epoch)).shuffle(order)
        order.sort(key=waiting.__contains__)
    first = start - last * size + len(played)
    return (played + order)[first : first + count]
