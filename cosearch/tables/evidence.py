"""Everything the tables of a scope are made of: evaluated rows, gate verdicts, training runs.

A scope is a part of the rows at their first seeds, or all that lies on this machine
(``Paths.of_scope``). What a row left that params.yaml no longer names is passed over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cosearch.core.grouping import GroupRules
from cosearch.files.artifacts import SKIPPED, Paths, read_json
from cosearch.files.hashes import check_hashes
from cosearch.params import blocks, rows
from cosearch.params.derived import BASE
from cosearch.params.settings import Settings
from cosearch.statistics.results import NOT_RUN, ResultSet, read_results, row_of
from cosearch.statistics.scope import Scope

MODELLESS = ("retriever_order", "oracle")
"""Kinds of rankers without a trained model. No gate withholds their rows."""

Gates = Mapping[tuple[str, int], Mapping[str, Any]]
"""(variant, seed) -> verdict."""


@dataclass(frozen=True)
class Evidence:
    """What a scope holds.

    ``k_of``: system -> the number of documents K that it shows, for Table 4. ``top_k``: the K of
    all other tables. ``runs``: variant -> the training folders of its seeds that hold rollouts.
    ``groups``: variant -> its rules of grouping.
    """

    results: ResultSet
    comparisons: Sequence[rows.Comparison]
    gates: Gates
    tables: rows.Tables
    k_of: Mapping[str, int]
    top_k: int
    runs: Mapping[str, Sequence[Path]]
    groups: Mapping[str, GroupRules]

    @property
    def scope(self) -> Scope:
        """The frame of all tables."""
        return self.results.scope


def gather(settings: Settings, paths: Paths, scope_name: str) -> Evidence:
    """Read what a scope holds; rows that the gate refuses or that diverged get a status.

    Raises ValueError for artifacts that are missing or changed.
    """
    method, grid = settings.method(), settings.section(blocks.Evaluate).k_grid
    file, known, top_k = settings.file, settings.systems, method.rollout.top_k
    every = read_results(paths.of_scope("evaluate", scope_name))
    evaluated = [
        replace(result, trained=known[result.system].variant != BASE)
        for result in every
        if result.system in known
    ]
    for result in evaluated:
        result.check_sets(evaluated_sets(settings))
    gates = {row: one for row, one in read_gates(paths, scope_name).items() if row[0] in known}
    return Evidence(
        results=ResultSet(
            evaluated=evaluated,
            scope=scope_of(settings),
            status=read_statuses(paths, scope_name) | withheld(known, gates),
            statistics=file.statistics,
        ),
        comparisons=file.comparisons,
        gates=gates,
        tables=settings.tables,
        k_of={
            name: top_k if system.grid is None else grid[system.grid]
            for name, system in known.items()
        },
        top_k=top_k,
        runs={row: one for row, one in read_runs(paths, scope_name).items() if row in known},
        groups={
            name: GroupRules(**settings.method(variant.set).group.model_dump())
            for name, variant in settings.variants.items()
        },
    )


def evaluated_sets(settings: Settings) -> list[str]:
    """The data sets that have questions in the split that is evaluated."""
    data, split = settings.section(blocks.Data), settings.section(blocks.Evaluate).split
    return [
        name
        for name, row in data.sets.items()
        if getattr(row, split) != 0 and (data.source == "world" or split in row.files)
    ]


def scope_of(settings: Settings) -> Scope:
    """The frame of a profile's tables."""
    return Scope(
        profile=settings.profile,
        rule=settings.method().reward.yes_no_rule,
        average="macro",
        kinds={name: row.kind for name, row in settings.section(blocks.Data).sets.items()},
        labels={name: system.label for name, system in settings.systems.items()},
    )


def read_gates(paths: Paths, scope_name: str) -> dict[tuple[str, int], Mapping[str, Any]]:
    """Verdict of every gate in a scope."""
    files = _files(paths, "gate", scope_name, "gate.json")
    return {row_of(path.parent): read_json(path) for path in files}


def read_statuses(paths: Paths, scope_name: str) -> dict[str, str]:
    """System -> the text in place of its results. Systems that the profile does not run are left
    out."""
    found = {}
    for path in _files(paths, "evaluate", scope_name, SKIPPED):
        status = read_json(path)["status"]
        if status != NOT_RUN:
            found[row_of(path.parent)[0]] = status
    return found


def read_runs(paths: Paths, scope_name: str) -> dict[str, list[Path]]:
    """Training folders that hold rollouts, by variant and in seed order.

    Raises ValueError for a file of rollouts that changed after it was written.
    """
    runs: dict[str, list[Path]] = {}
    for path in _files(paths, "train", scope_name, "metrics.csv"):
        if (path.parent / "rollouts").is_dir():
            _check_rollouts(path.parent)
            runs.setdefault(path.parent.name, []).append(path.parent)
    return runs


def _check_rollouts(folder: Path) -> None:
    files = read_json(folder / "trained.json")["files"]
    rollouts = {name: sum for name, sum in files.items() if name.startswith("rollouts/")}
    check_hashes(folder, rollouts, "train the variant again")


def withheld(systems: Mapping[str, rows.System], gates: Gates) -> dict[str, str]:
    """System -> reason, for rows whose trained ranker the gate refused at some seed."""
    refused = {
        variant: f"withheld: its ranker failed the gate (seed {seed})"
        for (variant, seed), verdict in gates.items()
        if verdict["trained"] and verdict["refused"]
    }
    return {
        name: refused[system.variant]
        for name, system in systems.items()
        if system.variant in refused and system.ranker not in MODELLESS
    }


def _files(paths: Paths, kind: str, scope_name: str, name: str) -> list[Path]:
    return [
        path for folder in paths.of_scope(kind, scope_name) for path in sorted(folder.rglob(name))
    ]
