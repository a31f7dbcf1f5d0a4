"""Kinds of index over the passages' vectors: exact, compressed, by lists, by graph (Section 4.1).

The paper searches all vectors. A corpus beyond one machine's memory needs another kind: codes
(fp16, sq8, pq) keep fewer bytes of each vector, lists (ivf_*) and graphs (hnsw) visit fewer of
them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import faiss

from cosearch.params.blocks import Index


@dataclass(frozen=True, slots=True)
class IndexRecipe:
    """A kind with its parameters. Those that the kind does not use are ignored, so that changing
    ``kind`` alone is enough. ``shards`` is the number of files searched side by side.

    Raises ValueError for an unknown kind, and for a parameter the kind needs and does not have.
    """

    kind: str
    shards: int
    nlist: int | None = None  # lists of ivf_*
    nprobe: int | None = None  # lists visited per query
    pq_m: int | None = None  # bytes per vector of pq; divides the dimension
    hnsw_m: int | None = None  # links per vector and level
    ef_construction: int | None = None
    ef_search: int | None = None
    train_rows: int | None = None  # vectors that centroids and ranges are learnt from
    seed: int | None = None  # of the training sample, of k-means and of the graph's levels

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"index.kind: {self.kind!r} is none of {', '.join(KINDS)}")
        for name in ("shards", *KINDS[self.kind].parameters):
            value, least = getattr(self, name), _LEAST.get(name, 1)
            if value is None:
                raise ValueError(f"index.{name}: kind {self.kind} needs it")
            if value < least:
                raise ValueError(f"index.{name}: {value} is less than {least}")

    @classmethod
    def of(cls, settings: Index) -> "IndexRecipe":
        """The recipe of the parameters."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})

    def used(self) -> dict[str, int]:
        """The parameters that this kind uses, by name."""
        return {name: getattr(self, name) for name in KINDS[self.kind].parameters}

    def with_kind(self, kind: str) -> "IndexRecipe | None":
        """The same parameters for another kind, or None where one is lacking."""
        if any(getattr(self, name) is None for name in KINDS[kind].parameters):
            return None
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return IndexRecipe(**values | {"kind": kind})


@dataclass(frozen=True, slots=True)
class Kind:
    """What FAISS makes of a kind. ``row`` and ``fixed`` give bytes per vector and per file, from
    the parameters and the dimension."""

    factory: str
    parameters: tuple[str, ...]
    row: Callable[[Mapping[str, int], int], float]
    fixed: Callable[[Mapping[str, int], int], int]
    on_gpu: bool

    @property
    def trained(self) -> bool:
        """Whether something is learnt from a sample first."""
        return "train_rows" in self.parameters


_FAISS: Any = faiss
"""FAISS as it is: its type stubs lack some names."""
_ID = 8
_CENTROIDS = 256
"""Of each part of a vector that pq stores as one byte."""
_LEAST = {"seed": 0, "hnsw_m": 2}
_TRAIN = ("train_rows", "seed")
_LISTS = ("nlist", "nprobe", *_TRAIN)


def _links(p: Mapping[str, int], _: int) -> float:
    # 2 m links at the ground level, m at each level above, which one vector in m reaches; a link
    # takes 4 bytes, the vector's place among the links 8 and its level 4.
    return (2 * p["hnsw_m"] + p["hnsw_m"] / (p["hnsw_m"] - 1)) * 4 + 12


def _lists(p: Mapping[str, int], dimension: int) -> int:
    return p["nlist"] * (dimension * 4 + 8)


KINDS: Mapping[str, Kind] = {
    "flat": Kind("Flat", (), lambda p, d: 4 * d, lambda p, d: 0, True),
    "fp16": Kind("SQfp16", (), lambda p, d: 2 * d, lambda p, d: 0, False),
    "sq8": Kind("SQ8", _TRAIN, lambda p, d: d, lambda p, d: 8 * d, False),
    "pq": Kind(
        "PQ{pq_m}np",
        ("pq_m", *_TRAIN),
        lambda p, d: p["pq_m"],
        lambda p, d: _CENTROIDS * 4 * d,
        False,
    ),
    "ivf_flat": Kind("IVF{nlist},Flat", _LISTS, lambda p, d: 4 * d + _ID, _lists, True),
    "ivf_sq8": Kind(
        "IVF{nlist},SQ8", _LISTS, lambda p, d: d + _ID, lambda p, d: _lists(p, d) + 8 * d, True
    ),
    "ivf_pq": Kind(
        "IVF{nlist},PQ{pq_m}np",
        ("pq_m", *_LISTS),
        lambda p, d: p["pq_m"] + _ID,
        lambda p, d: _lists(p, d) + _CENTROIDS * 4 * d,
        True,
    ),
    "hnsw": Kind(
        "HNSW{hnsw_m}",
        ("hnsw_m", "ef_construction", "ef_search", "seed"),
        lambda p, d: 4 * d + _links(p, d),
        lambda p, d: 0,
        False,
    ),
}
"""Kind -> FAISS factory string, parameters, sizes, and whether FAISS has it on GPUs.

``np`` leaves out polysemous training: it takes most of the time, for a filter that is unused here.
"""


def empty_index(recipe: IndexRecipe, dimension: int) -> Any:
    """A FAISS inner-product index without vectors, every random choice seeded.

    Raises ValueError where ``pq_m`` does not divide ``dimension``.
    """
    used = recipe.used()
    if dimension % used.get("pq_m", 1):
        raise ValueError(f"index.pq_m: {recipe.pq_m} does not divide the dimension {dimension}")
    name = KINDS[recipe.kind].factory.format(**used)
    index = faiss.index_factory(dimension, name, faiss.METRIC_INNER_PRODUCT)
    inner: Any = faiss.downcast_index(index)  # a view: only ``index`` owns the memory
    part: Any
    for part in (inner, getattr(inner, "pq", None)):
        if hasattr(part, "cp"):
            part.cp.seed = recipe.seed
            part.cp.min_points_per_centroid = 1  # check_sample checks that instead
    if "nprobe" in used:
        inner.nprobe = recipe.nprobe
    if "hnsw_m" in used:
        inner.hnsw.rng = _FAISS.RandomGenerator(recipe.seed)
        inner.hnsw.efConstruction, inner.hnsw.efSearch = recipe.ef_construction, recipe.ef_search
    return index


def check_sample(recipe: IndexRecipe, rows: int) -> None:
    """Raise ValueError where ``rows`` vectors are too few to learn the kind's centroids from."""
    used = recipe.used()
    needs = {"nlist": used.get("nlist", 1), "pq_m": _CENTROIDS if "pq_m" in used else 1}
    for name, least in needs.items():
        if rows < least:
            raise ValueError(
                f"index.{name}: kind {recipe.kind} learns {least} centroids, from {rows} vectors"
            )
