"""The columns of a rollout file that trajectories fill by themselves, in training and at
evaluation alike."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import polars as pl

from cosearch.core.rewards import CallReward
from cosearch.core.shown import left_out
from cosearch.core.types import SearchCall, Trajectory
from cosearch.files.artifacts import ROLLOUT_SCHEMA

RolloutRow = Mapping[str, Any]
"""A row by column; a column of ``ROLLOUT_SCHEMA`` that it leaves out is null."""


def rollout_frame(rows: Iterable[RolloutRow]) -> pl.DataFrame:
    """``rows`` under ``ROLLOUT_SCHEMA``, in the order given."""
    values = [tuple(row.get(name) for name in ROLLOUT_SCHEMA) for row in rows]
    return pl.DataFrame(values, schema=ROLLOUT_SCHEMA, orient="row")


def trajectory_row(trajectory: Trajectory) -> dict[str, Any]:
    """What a trajectory says, and how it ended."""
    return _place("trajectory", trajectory) | {
        "text": "\n\n".join(trajectory.turns),
        "spans": [
            {"kind": s.kind.value, "turn": s.turn, "start": s.start, "end": s.end}
            for s in trajectory.spans
        ],
        "answer": trajectory.answer,
        "terminal": trajectory.terminal.value,
        "fault": trajectory.fault,
        "sampling": asdict(trajectory.sampling),
        "notices": trajectory.notices,
    }


def search_row(trajectory: Trajectory, call: SearchCall, reward: CallReward) -> dict[str, Any]:
    """What a search of ``trajectory`` found, how it was ranked, and what Eqs. 4 to 6 say of it."""
    row = _place("call", trajectory) | {
        "turn": call.turn,
        "query": call.query,
        "candidates": [
            {"id": c.passage.id, "score": c.score, "relevant": relevant}
            for c, relevant in zip(call.candidates, reward.labels, strict=True)
        ],
        "ranking": call.ranking,
        "has_answer": reward.has_answer,
        "r_rel": reward.r_rel,
        "r_main": reward.r_main,
        "r_rank": reward.r_rank,
        "branch": reward.branch.value,
        "note": call.note.text if call.note else None,
        "shown_answer": reward.shown_answer,
        **left_out(call),
    }
    if reward.judgement is not None:
        row["dropped_judged"] = reward.judgement.dropped_documents
        row["cut_judged"] = reward.judgement.cut_documents
    if call.output is None:
        return row
    return row | {
        "text": call.output.text,
        "fault": call.output.fault,
        "sampling": asdict(call.output.generation.sampling),
    }


def _place(kind: str, trajectory: Trajectory) -> dict[str, Any]:
    question = trajectory.question
    return {
        "kind": kind,
        "dataset": question.dataset,
        "question_id": question.id,
        "sample": trajectory.sample,
        "question": question.text,
        "golds": question.golds,
    }
