"""Everything the tables of a scope are made of: evaluated rows, gate verdicts, training runs.

A scope is a part of the rows at one seed or at all that they have (``artifacts.SCOPES``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosearch.core.grouping import GroupRules
from cosearch.files.artifacts import SKIPPED, Paths, read_json
from cosearch.files.hashes import check_hashes
from cosearch.params import blocks, rows
from cosearch.params.settings import Settings
from cosearch.statistics.comparisons import Comparison, Statistics
from cosearch.statistics.results import Block, Result, Scope, TableRow, read_results

NOT_RUN = "not run"
MODELLESS = ("retriever_order", "oracle")
"""Ranker kinds that no gate can refuse."""

Gates = Mapping[tuple[str, int], Mapping[str, Any]]
"""(variant, seed) -> verdict."""


@dataclass(frozen=True)
class Evidence:
    """``status``: system -> what stands in place of its numbers. ``runs``: variant -> the training
    folders of its seeds, those with rollouts. ``groups``: variant -> its rules of grouping."""

    scope: Scope
    results: Sequence[Result]
    status: Mapping[str, str]
    statistics: Statistics
    comparisons: Sequence[Comparison]
    gates: Gates
    tables: rows.Tables
    systems: Mapping[str, rows.System]
    k_of: Mapping[str, int]
    """System -> the K that it shows, for Table 4."""
    top_k: int
    runs: Mapping[str, Sequence[Path]]
    groups: Mapping[str, GroupRules]

    def known(self, systems: Sequence[str]) -> list[str]:
        """Those of ``systems`` that have numbers or a reason for having none."""
        there = {result.system for result in self.results} | set(self.status)
        return [name for name in systems if name in there]

    def evaluated(self, systems: Sequence[str]) -> bool:
        """Whether all of ``systems`` have numbers or a reason for having none."""
        return len(self.known(systems)) == len(systems)


def gather(settings: Settings, paths: Paths, scope_name: str) -> Evidence:
    """What a scope holds; rows that the gate refuses or that diverged have a status."""
    data, method = settings.section(blocks.Data), settings.method()
    grid = settings.section(blocks.Evaluate).k_grid
    settings.asked.update(("systems", "variants", "comparisons", "statistics", "tables"))
    file, gates = settings.file, read_gates(paths, scope_name)
    top_k = method.rollout.top_k
    return Evidence(
        scope=Scope(
            profile=settings.profile,
            rule=method.reward.yes_no_rule,
            average="macro",
            kinds={name: row.kind for name, row in data.sets.items()},
            labels={name: system.label for name, system in file.systems.items()},
        ),
        results=read_results(paths.of_scope("evaluate", scope_name)),
        status=read_statuses(paths, scope_name) | withheld(file.systems, gates),
        statistics=Statistics(**file.statistics.model_dump()),
        comparisons=[Comparison(**one.model_dump()) for one in file.comparisons],
        gates=gates,
        tables=file.tables,
        systems=file.systems,
        k_of={
            name: top_k if system.grid is None else grid[system.grid]
            for name, system in file.systems.items()
        },
        top_k=top_k,
        runs=read_runs(paths, scope_name),
        groups={
            name: GroupRules(**settings.method(variant.set).group.model_dump())
            for name, variant in file.variants.items()
        },
    )


def block_of(spec: rows.Block) -> Block:
    """The rows of a table as parameters name them."""
    named = [TableRow(row.system, row.label) for row in spec.rows]
    return Block(spec.name, spec.backbone, named, spec.varying)


def read_gates(paths: Paths, scope_name: str) -> dict[tuple[str, int], Mapping[str, Any]]:
    """Verdict of every gate in a scope."""
    files = _files(paths, "gate", scope_name, "gate.json")
    return {row_of(path.parent): read_json(path) for path in files}


def read_statuses(paths: Paths, scope_name: str) -> dict[str, str]:
    """What systems without results say instead, but for those that the profile does not run."""
    found = {}
    for path in _files(paths, "evaluate", scope_name, SKIPPED):
        status = read_json(path)["status"]
        if status != NOT_RUN:
            found[row_of(path.parent)[0]] = status
    return found


def read_runs(paths: Paths, scope_name: str) -> dict[str, list[Path]]:
    """Training folders that hold rollouts, by variant and in seed order. Raises ValueError for a
    file of rollouts that is not as it was when it was written."""
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


def row_of(folder: Path) -> tuple[str, int]:
    """Name and seed of a row's folder, ``.../seed_SEED/NAME``."""
    return folder.name, int(folder.parent.name.removeprefix("seed_"))


def withheld(systems: Mapping[str, rows.System], gates: Gates) -> dict[str, str]:
    """System -> reason, for rows whose trained ranker some gate refused."""
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
