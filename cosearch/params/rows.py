"""The schema of the rows of params.yaml: what is trained, what is evaluated, and in which tables
and figures it stands."""

from typing import Annotated, Any, Literal

from pydantic import Field

from cosearch.params.method import Positive, Section

MethodName = Literal["react", "direct", "cot", "rag", "search_o1", "search_r1", "zerosearch"]
RankerKind = Literal["retriever_order", "generative", "cross_encoder", "oracle", "simulated"]
Part = Literal["core", "more"]


class Variant(Section):
    """Something that is trained. ``models``: role -> a name in the profile's ``models``, or
    ``fixed_ranker`` for what that stage trained."""

    method: MethodName
    ranker: RankerKind
    models: dict[Literal["agent", "ranker", "simulator"], str]
    shared: bool
    train: tuple[Literal["agent", "ranker"], ...]
    set: dict[str, Any]


class System(Section):
    """A row that is evaluated. ``models`` is for untrained ones; ``grid`` picks a K of Table 4."""

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
    part: Part
    needs: str


class Evaluation(Section):
    """A system at a seed, and the output below artifacts/PROFILE that its models come from."""

    system: str
    seed: int
    part: Part
    needs: str


class Comparison(Section):
    """Two systems that the tables compare."""

    left: str
    right: str
    metric: str


class TableRow(Section):
    """A system in a table, under the label it has there."""

    system: str
    label: str


class TableBlock(Section):
    """Rows of one table; ``backbone`` finds the published ones."""

    name: str
    backbone: str | None
    varying: tuple[str, ...]
    rows: Annotated[tuple[TableRow, ...], Field(min_length=1)]


class OraclePair(Section):
    """Standard and oracle retrieval of one Table 1."""

    name: str
    backbone: str | None
    standard: str
    oracle: str


class GridRow(Section):
    """A method of Table 4 and its system at each K."""

    label: str
    systems: tuple[str, ...]


class GridTable(Section):
    """Table 4."""

    backbone: str | None
    rows: tuple[GridRow, ...]


class Detectable(Section):
    """The pair whose smallest detectable difference is shown."""

    left: str
    right: str


class Tables(Section):
    """Which rows stand in which table or figure."""

    main: tuple[TableBlock, ...]
    oracle: tuple[OraclePair, ...]
    ablations: TableBlock
    walk: TableBlock
    grid: GridTable
    detectable: Detectable
    training_curves: tuple[str, ...]
    groups: tuple[str, ...]


class Statistics(Section):
    """The bootstrap."""

    level: Annotated[float, Field(gt=0, lt=1)]
    draws: Positive
    seed: int
    resample_seeds: bool
    power: Annotated[float, Field(gt=0, lt=1)]
