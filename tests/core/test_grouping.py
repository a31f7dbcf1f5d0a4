"""Semantic grouping (Algorithm 2)."""

from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.grouping import GroupRules, Member, group_calls
from cosearch.core.text import bag_f1, query_words

RULES = GroupRules(semantic=True, delta=0.8, k_min=3)
KEEP_ALL = GroupRules(semantic=True, delta=0.8, k_min=1)


def members(*queries: str, has_answer: bool = True, first: int = 0) -> list[Member]:
    return [Member((first + i, 0), query, has_answer) for i, query in enumerate(queries)]


def agreement(left: str, right: str) -> float:
    return bag_f1(query_words(left), query_words(right))


def queries(groups: list[list[Member]]) -> list[list[str]]:
    return [[member.query for member in group] for group in groups]


def test_a_call_joins_the_first_group_that_agrees() -> None:
    order = ["p q r s", "p q r t", "p q r s t", "x y"]
    loose = GroupRules(semantic=True, delta=0.8, k_min=1)
    assert agreement("p q r t", "p q r s t") > 0.8
    assert queries(group_calls(members(*order), loose)) == [
        ["p q r s", "p q r s t"],
        ["p q r t"],
        ["x y"],
    ]


def test_grouping_depends_on_the_order() -> None:
    order = ["p q r s t", "p q r s", "p q r t"]
    assert queries(group_calls(members(*order), RULES)) == [order]
    assert group_calls(members(*order[1:], order[0]), RULES) == []


def test_only_the_representative_is_compared() -> None:
    chain = ["p q r s t", "p q r s u", "p q r v u"]
    assert agreement(chain[1], chain[2]) == 0.8
    assert queries(group_calls(members(*chain), KEEP_ALL)) == [chain[:2], chain[2:]]


def test_an_agreement_of_exactly_delta_joins() -> None:
    assert agreement("x y z", "x y") == 0.8
    assert len(group_calls(members("x y z", "x y", "x y z"), RULES)) == 1


def test_groups_never_mix_i_ans() -> None:
    with_answer = members("capital", "capital", "capital")
    without = members("capital", "capital", has_answer=False, first=3)
    assert group_calls([*without, *with_answer], RULES) == [with_answer]
    assert group_calls([*without, *with_answer], KEEP_ALL) == [with_answer, without]


def test_small_groups_are_dropped() -> None:
    assert group_calls(members("capital", "capital"), RULES) == []
    released = GroupRules(semantic=True, delta=0.8, k_min=4)
    assert group_calls(members(*["capital"] * 3), released) == []
    assert len(group_calls(members(*["capital"] * 4), released)) == 1


def test_normalisation_of_queries() -> None:
    same = ["The capital of Norway?", "capital of norway", "CAPITAL, of (a) Norway!"]
    assert queries(group_calls(members(*same), RULES)) == [same]


def test_word_order_does_not_count() -> None:
    assert agreement("France defeated Germany", "Germany defeated France") == 1.0


def test_without_grouping_all_calls_of_a_question_are_one_group() -> None:
    rules = GroupRules(semantic=False, delta=0.8, k_min=3)
    calls = [*members("x"), *members("y", has_answer=False, first=1)]
    assert group_calls(calls, rules) == [calls]
    assert group_calls([], rules) == []


CALLS = st.lists(
    st.tuples(st.lists(st.sampled_from("pqrst"), min_size=1, max_size=5), st.booleans()),
    max_size=20,
).map(
    lambda drawn: [
        Member((index, 0), " ".join(words), flag) for index, (words, flag) in enumerate(drawn)
    ]
)


@given(CALLS)
def test_groups_partition_the_calls_in_order(calls: list[Member]) -> None:
    groups = group_calls(calls, KEEP_ALL)
    assert sorted(member.key for group in groups for member in group) == [m.key for m in calls]
    assert all(group == sorted(group, key=lambda member: member.key) for group in groups)
    assert group_calls(calls, RULES) == [group for group in groups if len(group) >= RULES.k_min]


@given(CALLS)
def test_members_agree_with_their_representative_and_with_no_earlier_one(
    calls: list[Member],
) -> None:
    groups = group_calls(calls, KEEP_ALL)
    for number, (head, *others) in enumerate(groups):
        earlier = [g[0] for g in groups[:number] if g[0].has_answer == head.has_answer]
        for member in others:
            assert member.has_answer == head.has_answer
            assert agreement(head.query, member.query) >= RULES.delta
        for member in (head, *others):
            assert all(agreement(e.query, member.query) < RULES.delta for e in earlier)
