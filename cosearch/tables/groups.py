"""Groups of ranker calls before and after the k_min filter (Algorithm 2; Figure 3).

The rollouts keep the groups that survived the filter; every other call has no group in the Parquet.
Groups before the filter are made again by the function that made them in training, with ``k_min``
1. Neither count includes calls that never entered grouping, because no ranker wrote them or because
their trajectory is malformed and excluded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import fsum
from pathlib import Path
from typing import Any

import polars as pl

from cosearch.core.advantages import is_constant
from cosearch.core.grouping import GroupRules, Member, group_calls
from cosearch.core.rewards import Branch
from cosearch.statistics.scope import Scope
from cosearch.tables.layout import Cell, Column, PrintedRow, Table

BEFORE, AFTER = "pre-filter", "post-filter"

REWARDS = ("r_main", "r_rel", "r_rank")
"""The agent's answer reward, the relevance reward, and the composite of both (Eqs. 4-6)."""

_GROUP_COLUMNS: dict[str, Any] = {
    "round": pl.Int64,  # from 1
    "phase": pl.String,
    "groups": pl.Int64,
    "calls": pl.Int64,
    "size": pl.Float64,  # calls per group
    "constant": pl.Float64,  # share of groups with equal composite rewards
    **dict.fromkeys(REWARDS, pl.Float64),  # means over calls
}
GROUP_SCHEMA = pl.Schema(_GROUP_COLUMNS)
"""Columns of what ``group_rounds`` returns."""

_COLUMNS = ("round", "dataset", "question_id", "query", "has_answer", "group", *REWARDS)

CallRow = dict[str, Any]
"""A search call as a row of a round's rollouts, with the columns that grouping and rewards need."""


def group_rounds(folder: Path, rules: GroupRules) -> pl.DataFrame:
    """Two rows per round, before and after the filter (``GROUP_SCHEMA``).

    ``folder`` holds round_NNN.parquet; ``rules`` are those the variant was trained under. A round
    without groups has empty means.
    """
    rows = []
    for path in round_files(folder):
        calls = grouped_calls(path)
        for phase, groups in ((BEFORE, before_filter(calls, rules)), (AFTER, after_filter(calls))):
            rows.append({"round": round_number(path), "phase": phase, **_measures(groups)})
    return pl.DataFrame(rows, schema=GROUP_SCHEMA)


def round_files(folder: Path) -> list[Path]:
    """The rollouts of every round, in order. Raises ValueError where there are none."""
    found = sorted(folder.glob("round_*.parquet"))
    if not found:
        raise ValueError(f"{folder}: no rollouts")
    return found


def round_number(path: Path) -> int:
    """The number in the name of a round's file, from 1."""
    return int(path.stem.removeprefix("round_"))


def grouped_calls(path: Path) -> list[CallRow]:
    """The calls of a round that entered grouping, in the fixed order (trajectory, then turn)."""
    entered = (
        (pl.col("kind") == "call")
        & pl.col("weights").is_not_null()  # a ranker wrote it
        & (pl.col("branch") != Branch.EXCLUDED.value)
    )
    return pl.scan_parquet(path).filter(entered).select(_COLUMNS).collect().to_dicts()


def before_filter(calls: Iterable[CallRow], rules: GroupRules) -> list[list[CallRow]]:
    """All groups of Algorithm 2 before small ones are dropped."""
    questions: dict[tuple[str, str], list[CallRow]] = {}
    for call in calls:
        questions.setdefault((call["dataset"], call["question_id"]), []).append(call)
    groups = []
    for asked in questions.values():
        members = [Member((0, at), one["query"], one["has_answer"]) for at, one in enumerate(asked)]
        made = group_calls(members, replace(rules, k_min=1))
        groups += [[asked[member.key[1]] for member in group] for group in made]
    return groups


def after_filter(calls: Iterable[CallRow]) -> list[list[CallRow]]:
    """The groups that survived, as they were recorded."""
    groups: dict[str, list[CallRow]] = {}
    for call in calls:
        if call["group"] is not None:
            groups.setdefault(call["group"], []).append(call)
    return list(groups.values())


def _measures(groups: Sequence[Sequence[CallRow]]) -> dict[str, float | None]:
    calls = [call for group in groups for call in group]
    constant = [is_constant([call["r_rank"] for call in group]) for group in groups]
    return {
        "groups": len(groups),
        "calls": len(calls),
        "size": _ratio(len(calls), len(groups)),
        "constant": _ratio(sum(constant), len(groups)),
        **{name: _ratio(fsum(call[name] for call in calls), len(calls)) for name in REWARDS},
    }


def groups_table(runs: Mapping[str, Sequence[pl.DataFrame]], *, scope: Scope) -> Table:
    """What the k_min filter keeps, per variant.

    ``runs``: variant -> ``group_rounds`` of each seed. All rounds and seeds are pooled:
    shares count every group once, rewards every call once.
    """
    rows = []
    for variant, seeds in runs.items():
        label, frame = scope.label(variant), pl.concat(seeds)
        before, after = (frame.filter(pl.col("phase") == phase) for phase in (BEFORE, AFTER))
        for phase, pooled in ((BEFORE, _pooled(before, before)), (AFTER, _pooled(after, before))):
            rows.append(PrintedRow(f"{label}, {phase}", pooled, systems=(variant,)))
    return Table(
        "groups",
        "Groups of ranker calls, before and after small ones are dropped (Figure 3)",
        scope.note("Training rollouts, all rounds and seeds; rewards are means over calls"),
        scope.profile,
        (
            Column("groups"),
            Column("calls"),
            Column("groups kept (%)", 1),
            Column("calls kept (%)", 1),
            Column("mean size", 2),
            Column("constant groups (%)", 1),
            Column("answer reward"),
            Column("relevance reward"),
            Column("composite reward"),
        ),
        tuple(rows),
        ("Constant: all composite rewards of the group are equal, so it teaches nothing.",),
        head="Variant",
    )


def _pooled(frame: pl.DataFrame, before: pl.DataFrame) -> tuple[Cell, ...]:
    groups, calls = int(frame["groups"].sum()), int(frame["calls"].sum())
    constant = _weighted(frame, "constant", "groups")
    return (
        groups,
        calls,
        _ratio(100 * groups, int(before["groups"].sum())),
        _ratio(100 * calls, int(before["calls"].sum())),
        _ratio(calls, groups),
        None if constant is None else 100 * constant,
        *(_weighted(frame, name, "calls") for name in REWARDS),
    )


def _weighted(frame: pl.DataFrame, column: str, weight: str) -> float | None:
    pairs = frame.select(column, weight).drop_nulls().rows()
    return _ratio(fsum(value * count for value, count in pairs), sum(count for _, count in pairs))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
