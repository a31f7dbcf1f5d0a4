"""Finished shards of the current round, so that a killed rollout repeats at most one of them.

A shard is one sealed JSON file. Floats are written as Python prints them, so they are read back
with the same bits. A passage, which many candidates share, is written once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Protocol, get_args, get_origin, get_type_hints

from cosearch.core.types import Passage, Question, Trajectory
from cosearch.files.sealed import read_sealed, write_sealed


class EngineMemory(Protocol):
    """What an engine remembers that changes its later batches, as JSON values."""

    def take(self) -> list[Any]:
        """What is new since the last ``take``."""

    def put(self, entries: Sequence[Any]) -> None:
        """Remember ``entries``, which an earlier process took."""


class NoMemory:
    """The memory of engines that remember nothing."""

    def take(self) -> list[Any]:
        """An empty list."""
        return []

    def put(self, entries: Sequence[Any]) -> None:
        """Ignore ``entries``."""


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of one round, in ``folder``. Implements ``collect.Kept``.

    What ``memory`` took or got back with each shard is added to ``learned``.
    """

    folder: Path
    memory: EngineMemory
    learned: list[Any]

    def read(
        self, number: int, questions: Sequence[Question], samples: int
    ) -> list[Trajectory] | None:
        """Trajectories of shard ``number``, or None if it is not finished.

        Raises ValueError for a damaged file, and for one of other questions.
        """
        path = self._path(number)
        if not path.is_file():
            return None
        advice = "delete this file alone and start again: its questions are rolled out once more"
        found = read_sealed(path, advice)
        trajectories = decode_shard(found)
        wanted = [(question, sample) for question in questions for sample in range(samples)]
        if [(one.question, one.sample) for one in trajectories] != wanted:
            raise ValueError(f"{path}: not of this round's questions; {advice}")
        self.memory.put(found["memory"])
        self.learned.extend(found["memory"])
        return trajectories

    def write(self, number: int, trajectories: Sequence[Trajectory]) -> None:
        """Keep a finished shard."""
        new = self.memory.take()
        write_sealed(self._path(number), encode_shard(trajectories) | {"memory": new})
        self.learned.extend(new)

    def _path(self, number: int) -> Path:
        return self.folder / f"shard_{number:05d}.json"


def encode_shard(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Trajectories as JSON values; ``decode_shard`` is its inverse."""
    pool: dict[Passage, int] = {}
    rows = [_pack(trajectory, pool) for trajectory in trajectories]
    return {"trajectories": rows, "passages": [[p.id, p.title, p.text] for p in pool]}


def decode_shard(packed: dict[str, Any]) -> list[Trajectory]:
    """The trajectories of an encoded shard."""
    pool = [Passage(*row) for row in packed["passages"]]
    return [_unpack(Trajectory, row, pool) for row in packed["trajectories"]]


def _pack(value: Any, pool: dict[Passage, int]) -> Any:
    if isinstance(value, Passage):
        return pool.setdefault(value, len(pool))
    if isinstance(value, StrEnum):
        return value.value
    if is_dataclass(value):
        return [_pack(getattr(value, field.name), pool) for field in fields(value)]
    if isinstance(value, tuple | list):
        plain = bool(value) and type(value[0]) in (int, float, str)
        return list(value) if plain else [_pack(item, pool) for item in value]
    return value


def _unpack(kind: Any, value: Any, pool: Sequence[Passage]) -> Any:
    if get_origin(kind) is UnionType:
        kind = get_args(kind)[0]
        return None if value is None else _unpack(kind, value, pool)
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        plain = item in (int, float, str)
        return tuple(value) if plain else tuple(_unpack(item, one, pool) for one in value)
    if kind is Passage:
        return pool[value]
    if isinstance(kind, type) and is_dataclass(kind):
        parts = (_unpack(one, part, pool) for one, part in zip(_kinds(kind), value, strict=True))
        return kind(*parts)
    return kind(value)


@cache
def _kinds(record: Any) -> tuple[Any, ...]:
    """Types of a record's fields, in order."""
    hints = get_type_hints(record)
    return tuple(hints[field.name] for field in fields(record))
