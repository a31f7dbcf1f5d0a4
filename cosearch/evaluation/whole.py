"""The whole trajectories of an evaluation, in the columns of training's rollout files.

What belongs to learning is null: round, token columns, group, advantage, trained and weights. The
columns of Eqs. 4 to 6 say what the rules of the evaluation would have paid.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from cosearch.core.credit import CreditRules
from cosearch.core.rewards import call_reward, main_reward
from cosearch.core.types import Trajectory
from cosearch.rollouts.recorded import rollout_frame, search_row, trajectory_row

TRAJECTORIES = "trajectories.parquet"
"""File of an evaluation that holds them."""


def whole_trajectories(trajectories: Sequence[Trajectory], credit: CreditRules) -> pl.DataFrame:
    """A row per trajectory and one per search after it, under ``ROLLOUT_SCHEMA``."""
    return rollout_frame(row for one in trajectories for row in _rows(one, credit))


def _rows(trajectory: Trajectory, credit: CreditRules) -> Iterator[dict[str, Any]]:
    yield trajectory_row(trajectory) | {"r_main": main_reward(trajectory, credit.reward)}
    for call in trajectory.calls:
        reward = call_reward(call, trajectory, credit.reward, credit.relevance)
        yield search_row(trajectory, call, reward)
