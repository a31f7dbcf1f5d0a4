"""The rows of params.yaml: what is trained, what is evaluated, and in which tables it stands.

A row is written once, as what it is like and what differs. From these entries everything else
follows: what the graph trains (``Variant``), what it evaluates (``System``), and the tables.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from cosearch.params.method import Positive, Section

MethodName = Literal["react", "direct", "cot", "rag", "search_o1", "search_r1", "zerosearch"]
RankerKind = Literal["retriever_order", "generative", "cross_encoder", "oracle", "simulated"]
PartName = Literal["core", "more"]
RoleName = Literal["agent", "ranker", "simulator"]
EvaluationKey = Literal["corpus", "index", "top_k", "yes_no_rule"]
"""What stands in the key of an evaluation's metrics.json: what its numbers depend on beside the
models."""

PARTS: Mapping[str, tuple[str, ...]] = {"core": ("core",), "all": ("core", "more")}
"""First word of a scope -> the parts of the rows that it takes in."""
HERE = "here"
"""The scope of all rows that lie on this machine. No stage of the graph makes it."""
INHERITED = ("preset", "method", "ranker", "models", "shared", "train", "models_of")
"""Keys that a row takes over from the row that it is like; ``set`` is merged."""


class RowEntry(Section):
    """A row as it is written; a key that is left out comes from the row that it is like."""

    like: str | None = None
    label: str
    part: PartName = "more"
    preset: str | None = None
    method: MethodName | None = None
    ranker: RankerKind | None = None
    models: dict[RoleName, str] | None = None
    shared: bool | None = None
    train: tuple[Literal["agent", "ranker"], ...] | None = None
    models_of: str | None = None
    grid: bool = False
    set: dict[str, Any] = Field(default_factory=dict)
    tables: dict[str, str] = Field(default_factory=dict)

    @field_validator("tables", mode="before")
    @classmethod
    def _labelled(cls, value: Any) -> Any:
        """A list of tables is short for a mapping whose labels are the row's own."""
        return dict.fromkeys(value, "") if isinstance(value, list) else value


class Row(Section):
    """A row with everything that it takes over.

    ``train`` names the roles that learn. A row that trains none has the models of the row
    ``models_of``, or else ``models`` as they are. ``grid`` adds an evaluation for every other K of
    the profile's ``evaluate.k_grid``. ``tables``: table -> the label that the row has there.
    """

    label: str
    part: PartName
    preset: str | None
    method: MethodName
    ranker: RankerKind
    models: dict[RoleName, str]
    shared: bool
    train: tuple[Literal["agent", "ranker"], ...]
    models_of: str | None
    grid: bool
    set: dict[str, Any]
    tables: dict[str, str]

    @property
    def is_trained(self) -> bool:
        """True if the graph trains models for this row."""
        return bool(self.train) and self.models_of is None


class Variant(Section):
    """Something that is trained. ``models``: role -> a name in the profile's ``models``, or
    ``fixed_ranker`` for the model that the stage of that name trained."""

    method: MethodName
    ranker: RankerKind
    models: dict[RoleName, str]
    shared: bool
    train: tuple[Literal["agent", "ranker"], ...]
    set: dict[str, Any]


class System(Section):
    """Something that is evaluated. ``models`` is for untrained ones; ``grid`` picks a K of Table 4,
    by its place in the profile's ``evaluate.k_grid``."""

    label: str
    variant: str
    method: MethodName
    ranker: RankerKind
    models: dict[Literal["agent", "ranker"], str]
    grid: Annotated[int, Field(ge=0)] | None
    set: dict[str, Any]


class Training(Section):
    """A variant at a seed, and the output below artifacts/PROFILE that it starts from."""

    variant: str
    seed: int
    part: PartName
    needs: str


class Evaluation(Section):
    """A system at a seed, and the output below artifacts/PROFILE that its models come from."""

    system: str
    seed: int
    part: PartName
    needs: str


class Comparison(Section):
    """Two systems that the tables compare, by F1, EM or Hit@k given that D_N holds an answer."""

    left: str
    right: str
    metric: Annotated[str, Field(pattern=r"^(f1|em|hit_[1-9][0-9]*)$")]

    @property
    def cutoff(self) -> int | None:
        """The k of Hit@k; None for another metric."""
        return int(self.metric[4:]) if self.metric.startswith("hit_") else None

    @model_validator(mode="after")
    def _of_two(self) -> "Comparison":
        if self.left == self.right:
            raise ValueError(f"{self.left} is compared with itself")
        return self


class TableRow(Section):
    """A system in a table, under the label that it has there."""

    system: str
    label: str


class TableFrame(Section):
    """A table without its rows. ``backbone`` finds the published numbers; ``varying`` names the
    keys of an evaluation in which its rows may differ."""

    name: str
    backbone: str | None
    varying: tuple[EvaluationKey, ...]


class TableBlock(TableFrame):
    """A table with its rows."""

    rows: Annotated[tuple[TableRow, ...], Field(min_length=1)]


class OraclePair(Section):
    """The rows under standard and under oracle retrieval of one Table 1."""

    name: str
    backbone: str | None
    standard: str
    oracle: str


class GridRow(Section):
    """A method of Table 4 and its system at each K."""

    label: str
    systems: tuple[str, ...]


class GridFrame(Section):
    """Table 4 without its rows: every row with ``grid`` stands in it."""

    backbone: str | None


class GridTable(GridFrame):
    """Table 4."""

    rows: tuple[GridRow, ...]


class Detectable(Section):
    """The pair whose smallest detectable difference is shown."""

    left: str
    right: str


class TableFrames(Section):
    """The tables as params.yaml describes them. The rows say in which of them they stand: by a
    frame's key (``main`` blocks by ``main_NAME``), ``training_curves`` or ``groups``."""

    main: tuple[TableFrame, ...]
    oracle: tuple[OraclePair, ...]
    ablations: TableFrame
    walk: TableFrame
    grid: GridFrame
    detectable: Detectable


class Tables(Section):
    """The tables with the rows that stand in them, in the order of params.yaml."""

    main: tuple[TableBlock, ...]
    oracle: tuple[OraclePair, ...]
    ablations: TableBlock
    walk: TableBlock
    grid: GridTable
    detectable: Detectable
    training_curves: tuple[str, ...]
    groups: tuple[str, ...]


class Statistics(Section):
    """The bootstrap, how many seeds a verdict about trained models needs, and how many questions
    each data set of any verdict."""

    level: Annotated[float, Field(gt=0, lt=1)]
    draws: Positive
    seed: int
    min_seeds: Positive
    power: Annotated[float, Field(gt=0, lt=1)]
    min_questions: Positive


def complete(entries: Mapping[str, RowEntry]) -> dict[str, Row]:
    """Every row with what it takes over from the row that it is like.

    Raises ValueError for a row that is like none that stands above it, or that lacks a key.
    """
    rows: dict[str, Row] = {}
    for name, entry in entries.items():
        if entry.like is not None and entry.like not in rows:
            raise ValueError(f"rows.{name}.like: no row {entry.like!r} stands above it")
        rows[name] = _completed(name, entry, rows[entry.like] if entry.like else None)
    return rows


def _completed(name: str, entry: RowEntry, base: Row | None) -> Row:
    own = entry.model_dump(exclude_unset=True, exclude={"like"})
    taken = {key: getattr(base, key) for key in INHERITED} if base else {}
    plain = {"preset": None, "shared": False, "train": (), "models_of": None}
    values = plain | taken | {key: value for key, value in own.items() if key in INHERITED}
    if lacking := [key for key in ("method", "ranker", "models") if values.get(key) is None]:
        raise ValueError(f"rows.{name}: {lacking[0]} is missing, and it is like no other row")
    return Row(
        label=entry.label,
        part=entry.part,
        grid=entry.grid,
        set={**(base.set if base else {}), **entry.set},
        tables={table: label or entry.label for table, label in entry.tables.items()},
        **values,
    )
