"""The phases of a round of profile paper: complete, sourced, and right by hand."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from cosearch.params.settings import load_settings
from cosearch.plan.outlook import Outlook
from cosearch.plan.phases import Phase, phase_lines, phases
from cosearch.plan.tables import tables

ROOT = Path(__file__).parents[2]
NAMES = [
    "rollout agent", "rollout ranker", "search", "update agent", "update ranker", "hand-over",
    "checkpoint", "development evaluation", "start-up", "hashing", "serialisation",
]  # fmt: skip
ROLLED = 512 * 8
AGENT = 270 + 2.67 * 90 + 1.67 * 780
"""Tokens of a trajectory."""
CALL = 7900 + 220
QWEN = 7615616512
"""Parameters of the 7B model; its embedding of 152064 x 3584 is no matrix product."""


@cache
def outlook() -> Outlook:
    return Outlook.of(load_settings("paper", ROOT / "params.yaml"))


@cache
def found() -> dict[str, Phase]:
    return {one.name: one for one in phases(outlook())}


def with_costs(**changes: float) -> Outlook:
    """The plan with other costs of a round."""
    settings = outlook().settings
    costs = settings.file.plan.round.model_copy(update=changes)
    plan = settings.file.plan.model_copy(update={"round": costs})
    return replace(
        outlook(), settings=replace(settings, file=settings.file.model_copy(update={"plan": plan}))
    )


def test_every_phase_has_a_limit_and_a_source() -> None:
    assert list(found()) == NAMES
    for one in found().values():
        assert one.seconds > 0 and one.work and one.limit, one
        assert any(word in one.source for word in ("measured", "data sheet", "assumption")), one


def test_tokens_of_the_ranker_and_seconds_of_updates_by_hand() -> None:
    """The figures of docs/paper.md."""
    read = 100 * ROLLED * 1.67 * 7900
    assert read == pytest.approx(5.4e9, rel=0.01)
    assert found()["rollout ranker"].work.startswith(f"{read / 100:.2g} tokens read")
    peak = 8 * 989e12 * 0.35
    seconds = {}
    for role, tokens, context in (
        ("agent", 0.6 * ROLLED * AGENT, AGENT),
        ("ranker", 0.35 * ROLLED * 1.67 * CALL, CALL),
    ):
        flops = 2 * (QWEN - 152064 * 3584) + 4 * 28 * 28 * 128 * context / 2
        seconds[role] = 4 * tokens * flops / peak
        assert found()[f"update {role}"].seconds == pytest.approx(seconds[role], rel=1e-6)
    assert sum(seconds.values()) == pytest.approx(536, abs=1)


def test_what_is_moved_written_and_hashed_by_hand() -> None:
    costs = outlook().settings.file.plan.round
    weights, states = 2 * 2 * QWEN / 1e9, 2 * 12 * QWEN / 1e9
    hand_over = weights / costs.hash + weights / costs.link + 2 * costs.wake
    hand_over += 2 * states / 8 / costs.host_link
    assert found()["hand-over"].seconds == pytest.approx(hand_over)
    state = weights + states
    every = state / costs.disk + state / costs.hash
    assert found()["checkpoint"].seconds == pytest.approx(every / 10)
    tokens = ROLLED * (AGENT + 1.67 * CALL)
    assert found()["serialisation"].seconds == pytest.approx(tokens / costs.serialise)


def test_phases_of_models_and_search_are_those_of_the_row() -> None:
    """Rollouts, updates, search and development questions together are what the row costs."""
    (row,) = (
        x for x in outlook().priced() if x.stage.name == "cosearch" and x.cost.seconds["update"]
    )
    names = [*NAMES[:5], "development evaluation"]
    parts = sum(found()[name].seconds for name in names)
    assert 100 * parts == pytest.approx(sum(row.cost.seconds.values()))


def test_a_row_takes_at_most_45_hours_or_the_plan_says_what_is_longest() -> None:
    hours = 100 * sum(one.seconds for one in found().values()) / 3600
    assert hours <= outlook().settings.file.plan.round.most_hours == 45
    (line,) = phase_lines(outlook())
    assert line == f"row cosearch: {hours:.1f} h for 100 rounds on 8 x h100-80, of at most 45"
    (line,) = phase_lines(with_costs(disk=0.02))
    assert "more than 45: longest are checkpoint" in line and "(disk)" in line


def test_the_table_has_a_line_for_each_phase_and_one_for_all() -> None:
    (table,) = (x for x in tables(outlook(), rows=False) if "by phase" in str(x.title))
    assert table.row_count == len(NAMES) + 1


@pytest.mark.parametrize("profile", ["tiny", "mini"])
def test_engines_of_one_process_have_no_phases(profile: str) -> None:
    other = Outlook.of(load_settings(profile, ROOT / "params.yaml"))
    assert phases(other) == [] and list(phase_lines(other)) == []
