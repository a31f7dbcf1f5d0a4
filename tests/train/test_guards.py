"""Guards: what they read, when they speak, and what they say."""

import math
from typing import Any

import pytest

from cosearch.params.blocks import Guards
from cosearch.train.guards import divergence

OFF: dict[str, Any] = dict.fromkeys(
    (
        "min_well_formed",
        "min_ranker_well_formed",
        "min_entropy",
        "max_entropy",
        "max_gap",
        "max_reward_drop",
    )
)
GOOD = {
    "end_answered": 0.9,
    "ranker_well_formed": 0.8,
    "calls": 20.0,
    "r_main": 0.5,
    "agent_entropy": 0.4,
    "agent_trained_tokens": 100.0,
    "agent_gap_mean": 0.001,
    "ranker_entropy": 0.3,
    "ranker_trained_tokens": 100.0,
    "ranker_gap_mean": 0.001,
}
START = {"round": 0.0, "dev_f1": 0.3}


def guards(patience: int = 1, **changes: float) -> Guards:
    return Guards(**OFF | changes, patience=patience)


def history(*rows: dict[str, float]) -> list[dict[str, float]]:
    return [START, *(GOOD | {"round": n} | row for n, row in enumerate(rows, start=1))]


CASES = [
    ("min_well_formed", 0.5, {"end_answered": 0.4}, "end_answered = 0.4 is below"),
    ("min_ranker_well_formed", 0.5, {"ranker_well_formed": 0}, "ranker_well_formed = 0 is below"),
    ("min_entropy", 0.1, {"agent_entropy": 0.01}, "agent_entropy = 0.01 is below"),
    ("min_entropy", 0.1, {"ranker_entropy": 0.01}, "ranker_entropy = 0.01 is below"),
    ("max_entropy", 2.0, {"agent_entropy": 3.0}, "agent_entropy = 3 is above"),
    ("max_gap", 0.1, {"ranker_gap_mean": 0.2}, "ranker_gap_mean = 0.2 is above"),
    ("max_gap", 0.1, {"agent_gap_mean": math.nan}, "agent_gap_mean = nan is above"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "bound", "bad", "said"), CASES, ids=str)
def test_each_guard_watches_its_measure(
    name: str, bound: float, bad: dict[str, float], said: str
) -> None:
    found = divergence(history({}, bad), guards(**{name: bound}))
    assert found == f"{said} {name} = {bound:.6g} in round 2 (1 in a row)"
    assert divergence(history({}, {}), guards(**{name: bound})) is None
    assert divergence(history({}, bad), guards()) is None


def test_a_threshold_itself_is_no_fault() -> None:
    assert divergence(history({"end_answered": 0.5}), guards(min_well_formed=0.5)) is None


def test_a_drop_is_measured_from_the_best_round_before() -> None:
    rows = [{"r_main": value} for value in (0.3, 0.6, 0.2)]
    found = divergence(history(*rows), guards(max_reward_drop=0.3))
    assert found == (
        "r_main = 0.2 is below the best round less max_reward_drop = 0.3 in round 3 (1 in a row)"
    )
    assert divergence(history(*rows), guards(max_reward_drop=0.5)) is None
    assert divergence(history(rows[2]), guards(max_reward_drop=0.1)) is None


def test_patience_is_in_a_row() -> None:
    bad, rules = {"end_answered": 0.1}, guards(patience=3, min_well_formed=0.5)
    assert divergence(history(bad, bad), rules) is None
    assert divergence(history(bad, {}, bad, bad), rules) is None
    found = divergence(history({}, bad, bad, bad), rules)
    assert found is not None and found.endswith("in round 4 (3 in a row)")


def test_rounds_that_say_nothing_are_no_fault() -> None:
    rules = guards(min_ranker_well_formed=0.5, min_entropy=0.1, max_gap=0.1)
    silent = {"calls": 0.0, "ranker_well_formed": 0.0}
    untrained = {"agent_entropy": 0.0, "agent_trained_tokens": 0.0}
    assert divergence(history(silent | untrained), rules) is None
    assert divergence([START], rules) is None
    assert divergence([], rules) is None
