"""Semantic grouping of ranker calls (Section 3.4, Algorithm 2)."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from cosearch.core.text import bag_f1, query_words


@dataclass(frozen=True, slots=True)
class Member:
    """A ranker call as grouping sees it; ``key`` leads back to the call."""

    key: Hashable
    query: str
    has_answer: bool


@dataclass(frozen=True, slots=True)
class GroupRules:
    """``semantic`` off is the ablation: one group per question, no split by I_ans, no k_min."""

    semantic: bool
    delta: float
    k_min: int


Agreement = Callable[[str, str], float]


def query_agreement(left: str, right: str) -> float:
    """Token F1 of two sub-queries. Word order does not count: "France defeated Germany" and
    "Germany defeated France" agree fully, which is the paper's rule."""
    return bag_f1(query_words(left), query_words(right))


def group_calls(
    members: Sequence[Member], rules: GroupRules, agreement: Agreement = query_agreement
) -> list[list[Member]]:
    """Groups of one question's calls that have at least ``k_min`` members.

    ``members`` come in the fixed order (trajectory, then turn). A call joins the FIRST group whose
    representative, its first member, agrees with it to at least ``delta``. The result depends on
    the order, so the order is part of the method.
    """
    if not rules.semantic:
        return [list(members)] if members else []
    groups: list[list[Member]] = []
    for has_answer in (True, False):
        split: list[list[Member]] = []
        for member in (m for m in members if m.has_answer == has_answer):
            home = next((g for g in split if agreement(g[0].query, member.query) >= rules.delta), None)
            if home is None:
                split.append([member])
            else:
                home.append(member)
        groups.extend(split)
    return [group for group in groups if len(group) >= rules.k_min]
