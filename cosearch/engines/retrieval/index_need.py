"""How much disk and memory an index needs, compared with what the machine has before work begins.

An index of 21 million passages (Section 4.1's corpus at 768 dimensions) takes 65 GB flat and 2 GB
by product codes. The check comes first, because building runs for hours before memory runs out.
"""

import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cosearch.engines.retrieval.index_kinds import KINDS, IndexRecipe

IndexPhase = Literal["build", "serve"]
"""What the machine is about to do with an index: build it, or search it."""

_GROWTH = 2
"""Codes lie in one growing array; while it moves, old and new copy are both there."""
_SAMPLE_COPIES = 2
"""The training sample, and its residuals or its subsample inside k-means."""
_MOST_SHARDS = 64


@dataclass(frozen=True, slots=True)
class IndexNeed:
    """Bytes: of all files, of memory at the peak of building, of memory to search at speed."""

    recipe: IndexRecipe
    bytes_file: int
    bytes_build: int
    bytes_serve: int


@dataclass(frozen=True, slots=True)
class Room:
    """Free bytes of memory and disk; None where the system does not tell."""

    memory: int | None
    disk: int | None

    @classmethod
    def here(cls, folder: str | Path) -> "Room":
        """What this machine has now; ``folder`` need not exist yet."""
        folder = Path(folder).absolute()
        there = next(path for path in (folder, *folder.parents) if path.exists())
        return cls(free_memory(Path("/proc/meminfo")), shutil.disk_usage(there).free)


def free_memory(meminfo: Path) -> int | None:
    """Bytes that Linux can give without swapping, or None on a system without ``meminfo``."""
    try:
        lines = meminfo.read_text("ascii").splitlines()
    except OSError:
        return None
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable:")), None)


def index_need(recipe: IndexRecipe, *, rows: int, dimension: int, shard_rows: int) -> IndexNeed:
    """What ``rows`` vectors need. ``shard_rows``: vectors of one encoded shard, which are in memory
    while they are added. Files are built one at a time and searched together."""
    kind, used = KINDS[recipe.kind], recipe.used()
    row, fixed = kind.row(used, dimension), kind.fixed(used, dimension)
    file = math.ceil(row * rows) + recipe.shards * fixed
    part = math.ceil(row * -(-rows // recipe.shards)) + fixed
    sample = min(used.get("train_rows", 0), rows) * dimension * 4
    build = _GROWTH * part + _SAMPLE_COPIES * sample + min(shard_rows, rows) * dimension * 4
    return IndexNeed(recipe, file, build, file)


def check_room(
    need: IndexNeed,
    room: Room,
    *,
    phase: IndexPhase,
    rows: int,
    dimension: int,
    shard_rows: int,
    recall: Mapping[str, float],
) -> None:
    """Raise ValueError where ``need`` is more than there is, naming both and what would fit.

    ``recall``: kind -> share of the exact best passages found, as measured by the benchmark.
    """
    lacks = list(_lacks(need, room, phase))
    if not lacks:
        return
    others = (
        index_need(recipe, rows=rows, dimension=dimension, shard_rows=shard_rows)
        for recipe in _alternatives(need.recipe, phase)
    )
    fits = [other for other in others if not any(_lacks(other, room, phase))]
    told = [_told(other, need.recipe, phase, recall) for other in fits]
    raise ValueError(
        f"index.kind {need.recipe.kind}: to {phase} {rows} vectors of {dimension} dimensions, "
        f"{' and '.join(lacks)}; what fits: {', '.join(told) or 'nothing'}"
    )


def _lacks(need: IndexNeed, room: Room, phase: IndexPhase) -> Iterator[str]:
    memory = need.bytes_build if phase == "build" else need.bytes_serve
    pairs = [("memory", memory, room.memory)]
    if phase == "build":
        pairs.append(("disk", need.bytes_file, room.disk))
    for name, wanted, free in pairs:
        if free is not None and wanted > free:
            yield f"{name} needed {_gigabytes(wanted)}, free {_gigabytes(free)}"


def _alternatives(recipe: IndexRecipe, phase: IndexPhase) -> Iterator[IndexRecipe]:
    """The same kind in more files, which are built one by one, then every other kind."""
    shards = recipe.shards
    while phase == "build" and (shards := 2 * shards) <= _MOST_SHARDS:
        yield replace(recipe, shards=shards)
    for kind in KINDS:
        other = recipe.with_kind(kind)
        if other is not None and kind != recipe.kind:
            yield other


def _told(
    need: IndexNeed, asked: IndexRecipe, phase: IndexPhase, recall: Mapping[str, float]
) -> str:
    kind = need.recipe.kind
    name = kind if kind != asked.kind else f"{kind} in {need.recipe.shards} shards"
    memory = need.bytes_build if phase == "build" else need.bytes_serve
    known = f", recall {recall[kind]:.3f}" if kind in recall else ""
    return f"{name} (file {_gigabytes(need.bytes_file)}, memory {_gigabytes(memory)}{known})"


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
