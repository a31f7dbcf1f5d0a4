"""Semantic grouping of ranker calls (Section 3.4, Algorithm 2)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cosearch.core.text import counted_f1, query_words

CallKey = tuple[int, int]
"""(index of the trajectory, index of the call in it)."""


@dataclass(frozen=True, slots=True)
class Member:
    """A ranker call as grouping sees it; ``key`` leads back to the call."""

    key: CallKey
    query: str
    has_answer: bool


@dataclass(frozen=True, slots=True)
class GroupRules:
    """``semantic`` off is the ablation: one group per question, without the split by I_ans and
    without k_min."""

    semantic: bool
    delta: float
    k_min: int


def group_calls(members: Sequence[Member], rules: GroupRules) -> list[list[Member]]:
    """Groups of one question's calls that have at least ``k_min`` members.

    ``members`` come in the fixed order (trajectory, then turn). A call joins the FIRST group whose
    representative, its first member, agrees with it to at least ``delta``: by token F1 of the two
    sub-queries, so word order does not count. The result depends on the order of the calls, so the
    order is part of the method.
    """
    if not rules.semantic:
        return [list(members)] if members else []
    with_answer = [member for member in members if member.has_answer]
    without_answer = [member for member in members if not member.has_answer]
    groups = [*_first_fit(with_answer, rules.delta), *_first_fit(without_answer, rules.delta)]
    return [group for group in groups if len(group) >= rules.k_min]


def _first_fit(members: Sequence[Member], delta: float) -> list[list[Member]]:
    """Lines 3-10 of Algorithm 2: each member to the first group whose first member agrees."""
    groups: list[list[Member]] = []
    heads: list[Counter[str]] = []
    for member in members:
        words = Counter(query_words(member.query))
        for head, group in zip(heads, groups, strict=True):
            if counted_f1(head, words) >= delta:
                group.append(member)
                break
        else:
            heads.append(words)
            groups.append([member])
    return groups
