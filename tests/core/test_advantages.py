"""Group-relative advantages (Section 3.4)."""

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cosearch.core.advantages import AdvantageRules, group_advantages, is_constant

GOLDEN = json.loads((Path(__file__).parent / "golden" / "advantages.json").read_text())
STDS = pytest.mark.parametrize("std", ["sample", "population"])
REWARDS = st.lists(st.integers(-20, 200).map(lambda cent: cent / 100), min_size=2, max_size=16)


@STDS
def test_golden_values(std: str) -> None:
    rules = AdvantageRules(std, adv_eps=1e-6)
    assert group_advantages(GOLDEN["rewards"], rules) == pytest.approx(GOLDEN[std], abs=5e-6)


@STDS
@pytest.mark.parametrize(
    "rewards",
    [[], [1.7], [0.0] * 4, [0.1 + 0.2, 0.3, 0.3], [1e-6, 0.0, 0.0]],
    ids=["empty", "single", "equal", "noise", "within"],
)
def test_groups_without_signal_earn_nothing(std: str, rewards: list[float]) -> None:
    assert is_constant(rewards)
    assert group_advantages(rewards, AdvantageRules(std, adv_eps=0.0)) == [0.0] * len(rewards)


def test_a_difference_beyond_noise_counts() -> None:
    assert not is_constant([1.0, 1.0 + 3e-6])
    assert group_advantages([0.0, 1.0], AdvantageRules("population", adv_eps=0.0)) == [-1.0, 1.0]


def test_adv_eps_shrinks() -> None:
    rules = AdvantageRules("population", adv_eps=0.5)
    assert group_advantages([0.0, 1.0], rules) == [-0.5, 0.5]


@STDS
@given(REWARDS)
def test_mean_is_zero_and_scale_is_one(std: str, rewards: list[float]) -> None:
    assume(not is_constant(rewards))
    values = group_advantages(rewards, AdvantageRules(std, adv_eps=0.0))
    count = len(values) - (std == "sample")
    assert sum(values) == pytest.approx(0.0, abs=1e-9)
    assert sum(value * value for value in values) / count == pytest.approx(1.0)


@STDS
@given(REWARDS, st.integers(1, 5), st.integers(-3, 3))
def test_units_and_offset_of_rewards_do_not_matter(
    std: str, rewards: list[float], unit: int, offset: int
) -> None:
    rules = AdvantageRules(std, adv_eps=0.0)
    moved = [unit * reward + offset for reward in rewards]
    assert group_advantages(moved, rules) == pytest.approx(group_advantages(rewards, rules))
