"""A choice among many trajectories that shows what is rare, without random numbers."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Key = tuple[str, str, int]
"""Data set, question and sample: a trajectory within a round."""

KEY = ("dataset", "question_id", "sample")
"""Columns that name a trajectory within a file."""


def key_of(row: Mapping[str, Any]) -> Key:
    """What names the trajectory of a row within its file."""
    return row["dataset"], row["question_id"], row["sample"]


def spread(features: Mapping[Key, Sequence[str]], limit: int) -> list[Key]:
    """At most ``limit`` keys that together have as many different features as possible.

    Every step takes a trajectory with the most features that no taken one has, and among those one
    whose features occur least among the taken ones. The hash of the key decides between equals, so
    that the choice does not depend on the order of the questions.
    """
    alike: dict[tuple[str, ...], list[Key]] = {}
    for key in sorted(features, key=lambda key: hashlib.sha256(repr(key).encode()).digest()):
        alike.setdefault(tuple(sorted(set(features[key]))), []).append(key)
    seen: Counter[str] = Counter()
    taken: list[Key] = []
    while alike and len(taken) < limit:
        best = max(alike, key=lambda kinds: _novelty(kinds, seen))
        taken.append(alike[best].pop(0))
        seen.update(best)
        if not alike[best]:
            del alike[best]
    return taken


def _novelty(kinds: Sequence[str], seen: Counter[str]) -> tuple[int, float]:
    unseen = sum(not seen[kind] for kind in kinds)
    return unseen, sum(1 / (1 + seen[kind]) for kind in kinds) / max(1, len(kinds))
