"""What follows from the rows: variants to train, systems to evaluate, tables, and the graph.

params.yaml says each row once. This module computes the rest, because DVC cannot compute; DVC reads
the result from ``rows.yaml``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import ValidationError

from cosearch.params.method import Section
from cosearch.params.rows import (
    PARTS,
    Evaluation,
    GridRow,
    GridTable,
    PartName,
    RankerKind,
    Row,
    System,
    TableBlock,
    TableFrame,
    TableFrames,
    TableRow,
    Tables,
    Training,
    Variant,
)

BASE = "base"
"""What a system's ``variant`` says when its models were never trained."""
UNTRAINED = "data/manifest.json"
"""What a row of untrained models needs: an output that is always there."""
FIXED_RANKER = "fixed_ranker"
"""What a variant's ``models`` says for the ranker that the stage of that name trained."""
EVALUATED_AS: Mapping[RankerKind, RankerKind] = {"simulated": "retriever_order"}
"""Ranker kinds that read the gold answers, so that they serve training alone, and the kind that
takes their place when the agent is measured."""


class Collection(Section):
    """All rows of a part at a seed. ``before`` is the output of the collection of the seed before
    this one, so that the last one stands for all of them. ``evaluated``, ``gates`` and ``trained``
    are the folders of the rows, or an output that is always there where no row makes such one."""

    part: str
    seed: int
    before: str
    evaluated: str
    gates: str
    trained: str


class ScopeRows(Section):
    """The collections that a set of tables waits for: the last seed of each part that it shows.
    dvc.yaml lists two collections for every scope, so a scope of one part names it in both."""

    first: str
    second: str


class GraphRows(Section):
    """Every instance of a stage, as rows.yaml tells DVC."""

    seeds: tuple[int, ...]
    trainings: dict[str, Training]
    evaluations: dict[str, Evaluation]
    collections: dict[str, Collection]
    scopes: dict[str, ScopeRows]


def variants_of(rows: Mapping[str, Row]) -> dict[str, Variant]:
    """What is trained, by name of the row."""
    keys = set(Variant.model_fields)
    return {
        name: Variant(**row.model_dump(include=keys))
        for name, row in rows.items()
        if row.is_trained
    }


def systems_of(rows: Mapping[str, Row], places: Sequence[int]) -> dict[str, System]:
    """What is evaluated: every row, and after the rows those with ``grid`` at each of ``places``
    of the K grid."""
    systems = {name: _system(name, row) for name, row in rows.items()}
    for name, row in rows.items():
        for place in places if row.grid else ():
            label = f"{row.label}, K grid {place}"
            change = {"label": label, "grid": place}
            if (own := f"{name}_grid_{place}") in rows:
                raise ValueError(f"rows.{own}: the row {name} has an evaluation of this name")
            systems[own] = systems[name].model_copy(update=change)
    return systems


def _system(name: str, row: Row) -> System:
    trained = row.is_trained
    untrained = not trained and row.models_of is None
    return System(
        label=row.label,
        variant=name if trained else row.models_of or BASE,
        method=row.method,
        ranker=EVALUATED_AS.get(row.ranker, row.ranker),
        models=_untrained(row) if untrained else {},
        grid=None,
        set={} if trained else row.set,
    )


def _untrained(row: Row) -> dict[Literal["agent", "ranker"], str]:
    return {role: name for role, name in row.models.items() if role != "simulator"}


def tables_of(
    frames: TableFrames, rows: Mapping[str, Row], places: Sequence[int], count: int
) -> Tables:
    """The tables with their rows. ``places`` of the ``count`` entries of the K grid have systems
    of their own; the row itself stands in the place that is left.

    Raises ValueError for a row that stands in a table that is not there, and for an empty table.
    """
    known = {f"main_{frame.name}": frame for frame in frames.main}
    known |= {"ablations": frames.ablations, "walk": frames.walk}
    blocks = {key: _block(key, frame, rows) for key, frame in known.items()}
    figures = {key: _standing(key, rows) for key in ("training_curves", "groups")}
    for name, row in rows.items():
        for table in row.tables:
            if table not in {*known, *figures}:
                there = ", ".join([*known, *figures])
                raise ValueError(f"rows.{name}.tables: no table {table!r}; there are {there}")
    grid = [
        GridRow(
            label=row.label,
            systems=tuple(f"{name}_grid_{k}" if k in places else name for k in range(count)),
        )
        for name, row in rows.items()
        if row.grid
    ]
    return Tables(
        main=tuple(blocks[f"main_{frame.name}"] for frame in frames.main),
        oracle=frames.oracle,
        ablations=blocks["ablations"],
        walk=blocks["walk"],
        grid=GridTable(backbone=frames.grid.backbone, rows=tuple(grid)),
        detectable=frames.detectable,
        training_curves=tuple(figures["training_curves"]),
        groups=tuple(figures["groups"]),
    )


def _block(key: str, frame: TableFrame, rows: Mapping[str, Row]) -> TableBlock:
    named = [TableRow(system=name, label=rows[name].tables[key]) for name in _standing(key, rows)]
    try:
        return TableBlock(**frame.model_dump(), rows=tuple(named))
    except ValidationError:
        raise ValueError(f"tables: no row stands in {key}") from None


def _standing(key: str, rows: Mapping[str, Row]) -> list[str]:
    return [name for name, row in rows.items() if key in row.tables]


def graph_of(rows: Mapping[str, Row], systems: Mapping[str, System], seeds: int) -> GraphRows:
    """Every training, evaluation, collection and scope of ``seeds`` seeds."""
    parts = {name: rows[name].part if name in rows else "more" for name in systems}
    return GraphRows(
        seeds=tuple(range(seeds)),
        trainings={
            f"{name}-{seed}": Training(
                variant=name, seed=seed, part=row.part, needs=_start_of(row, seed)
            )
            for name, row in rows.items()
            if row.is_trained
            for seed in range(seeds)
        },
        evaluations={
            f"{name}-{seed}": Evaluation(
                system=name, seed=seed, part=parts[name], needs=_models_of(system, rows, seed)
            )
            for name, system in systems.items()
            for seed in range(seeds)
        },
        collections=dict(_collections(rows.values(), parts.values(), seeds)),
        scopes=dict(_scopes(seeds)),
    )


def _start_of(row: Row, seed: int) -> str:
    return f"fixed_ranker/seed_{seed}" if FIXED_RANKER in row.models.values() else UNTRAINED


def _models_of(system: System, rows: Mapping[str, Row], seed: int) -> str:
    if system.variant == BASE:
        return UNTRAINED
    return f"train/{rows[system.variant].part}/seed_{seed}/{system.variant}"


def _collections(
    rows: Iterable[Row], evaluated: Iterable[PartName], seeds: int
) -> Iterator[tuple[str, Collection]]:
    """``evaluated`` holds the part of each system."""
    learning = {row.part for row in rows if row.is_trained}
    holders = {"evaluate": {*evaluated}, "gate": learning, "train": learning}
    for part in PARTS["all"]:
        for seed in range(seeds):
            places = {
                kind: f"{kind}/{part}/seed_{seed}" if part in parts else UNTRAINED
                for kind, parts in holders.items()
            }
            yield (
                f"{part}-{seed}",
                Collection(
                    part=part,
                    seed=seed,
                    before=f"collected/{part}-{seed - 1}.json" if seed else UNTRAINED,
                    evaluated=places["evaluate"],
                    gates=places["gate"],
                    trained=places["train"],
                ),
            )


def _scopes(seeds: int) -> Iterator[tuple[str, ScopeRows]]:
    for name, parts in PARTS.items():
        for count in range(1, seeds + 1, 2):
            last = [f"{part}-{count - 1}" for part in parts]
            yield f"{name}_{count}", ScopeRows(first=last[0], second=last[-1])
