"""Rounds in which a role that learns was trained on nothing, because no sample of it had an
advantage: every group was too small, or its rewards were all equal."""

from collections import Counter
from collections.abc import Iterable, Mapping

TRAINED = "_samples"
"""How the name of a metric ends that only a round with this role's samples has."""


def idle_roles(metrics: Mapping[str, float]) -> list[str]:
    """The learning roles that the round of ``metrics`` did not train."""
    roles = [name.removesuffix(TRAINED) for name in metrics if name.endswith(TRAINED)]
    return [
        role
        for role in roles
        if not metrics[f"{role}{TRAINED}"] or metrics.get(f"{role}_trained_tokens") == 0
    ]


def idle_rounds(rows: Iterable[Mapping[str, float]]) -> dict[str, int]:
    """Role -> in how many of the rounds it was not trained; only roles with such a round."""
    return dict(Counter(role for row in rows for role in idle_roles(row)))
