"""Corpus -> shards of vectors, resumable per shard (Section 4.1's fixed dense retriever).

A finished shard is one ``.npy`` file, written aside and renamed; ``manifest.json`` is written last.
So a killed run loses one shard of hours of work and goes on at the next one. Several hosts with one
file system can share the work: each encodes its part of the shards, then a run without a part finds
them finished and writes the manifest.
"""

import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cosearch.core.protocols import ShowProgress
from cosearch.core.types import Passage
from cosearch.data.corpus import Corpus
from cosearch.files.artifacts import write_aside, write_json
from cosearch.files.hashes import hash_file
from cosearch.params.blocks import Encoder

_FINGERPRINT, _MANIFEST = "fingerprint.json", "manifest.json"


@dataclass(frozen=True, slots=True)
class HostPart:
    """The shards of one host: every ``of``-th shard, counted from shard ``number``."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "HostPart":
        """``0/4`` to ``3/4``. Raises ValueError for anything else."""
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and int(number) < int(of)):
            raise ValueError(f"part {text!r} is not i/n with 0 <= i < n, such as 0/4")
        return cls(int(number), int(of))


class PassageEncoder(Protocol):
    """What encoding needs of an encoder; ``engines.retrieval.encoder.DenseEncoder`` is one."""

    dimension: int
    fingerprint: dict[str, Any]

    def encode_passages(self, passages: Sequence[Passage]) -> np.ndarray:
        """``[n, dimension]`` float32."""


def encode_corpus(
    corpus_folder: str | Path,
    folder: str | Path,
    make_encoder: Callable[[int], PassageEncoder],
    settings: Encoder,
    *,
    progress: ShowProgress,
    part: HostPart | None = None,
) -> dict[str, Any] | None:
    """Encode every passage and return the manifest: corpus, encoder, rows, dimension, shards.

    ``make_encoder`` takes the number of a worker, from 0. It must pickle when
    ``settings.processes`` > 1: each spawned worker makes its own encoder. Finished shards of the
    same corpus, encoder, shard size and storage type are kept, others are removed.
    ``settings.storage`` is the type on disk, float32 or float16. ``progress`` is called with
    passages after every shard. With ``part``, only its shards are encoded, no manifest is written
    and None is returned; shards of other settings are then an error, since another part may be
    writing them.
    """
    if settings.storage not in ("float32", "float16"):
        raise ValueError(f"encode: storage {settings.storage!r} is neither float32 nor float16")
    corpus, folder = Corpus(corpus_folder), Path(folder)
    encoder = make_encoder(0)
    fingerprint = {
        "corpus": corpus.sha256,
        "encoder": encoder.fingerprint,
        "shard_size": settings.shard_size,
        "storage": settings.storage,
    }
    _claim(folder, fingerprint, part)
    plan = _ShardPlan(corpus, folder, settings.shard_size, settings.storage, encoder.dimension)
    own = plan.shards() if part is None else plan.shards()[part.number :: part.of]
    missing = [shard for shard in own if not plan.finished(shard)]
    total = sum(map(plan.rows, own))
    done = total - sum(map(plan.rows, missing))
    progress(done, total)
    for rows in _encode_missing(plan, missing, encoder, make_encoder, settings.processes):
        done += rows
        progress(done, total)
    return None if part is not None else _publish(plan, fingerprint)


class _ShardPlan:
    """Which passages go to which file."""

    def __init__(
        self, corpus: Corpus, folder: Path, shard_size: int, storage: str, dimension: int
    ) -> None:
        self.corpus, self.folder, self.size = corpus, folder, shard_size
        self.storage, self.dimension = storage, dimension

    def shards(self) -> range:
        return range(-(-len(self.corpus) // self.size))

    def rows(self, shard: int) -> int:
        return min(self.size, len(self.corpus) - shard * self.size)

    def path(self, shard: int) -> Path:
        return self.folder / f"shard-{shard:05d}.npy"

    def finished(self, shard: int) -> bool:
        try:
            vectors = np.load(self.path(shard), mmap_mode="r")
        except (OSError, ValueError, EOFError):
            return False
        return bool(vectors.shape == (self.rows(shard), self.dimension))

    def encode(self, shard: int, encoder: PassageEncoder) -> int:
        """Write one shard and return its rows."""
        start, rows = shard * self.size, self.rows(shard)
        vectors = encoder.encode_passages(self.corpus.passages(start, start + rows))
        if not np.isfinite(vectors).all():
            raise ValueError(f"{self.path(shard)}: the encoder returned non-finite vectors")
        write_aside(self.path(shard), lambda aside: _save(aside, vectors.astype(self.storage)))
        return rows


def _save(path: Path, vectors: np.ndarray) -> None:
    with path.open("wb") as file:  # a handle: given a name, numpy would append ".npy"
        np.save(file, vectors)


def _encode_missing(
    plan: _ShardPlan,
    missing: Sequence[int],
    encoder: PassageEncoder,
    make_encoder: Callable[[int], PassageEncoder],
    processes: int,
) -> Iterator[int]:
    if processes == 1:
        yield from (plan.encode(shard, encoder) for shard in missing)
        return
    spawn = multiprocessing.get_context("spawn")
    numbers = spawn.SimpleQueue()
    for number in range(processes):
        numbers.put(number)
    settings = (plan.corpus.folder, plan.folder, plan.size, plan.storage, make_encoder, numbers)
    with ProcessPoolExecutor(processes, spawn, _start_worker, settings) as pool:
        for future in as_completed([pool.submit(_work, shard) for shard in missing]):
            yield future.result()


_worker: tuple[_ShardPlan, PassageEncoder]


def _start_worker(
    corpus: Path,
    folder: Path,
    size: int,
    storage: str,
    make_encoder: Callable[[int], PassageEncoder],
    numbers: Any,
) -> None:
    """Make this process's encoder. ``numbers``: a queue with a number for each worker."""
    global _worker
    encoder = make_encoder(numbers.get())
    _worker = (_ShardPlan(Corpus(corpus), folder, size, storage, encoder.dimension), encoder)


def _work(shard: int) -> int:
    plan, encoder = _worker
    return plan.encode(shard, encoder)


def _claim(folder: Path, fingerprint: Mapping[str, Any], part: HostPart | None) -> None:
    """Keep the shards of this fingerprint, remove those of any other."""
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / _FINGERPRINT
    if record.is_file():
        if json.loads(record.read_text("utf-8")) == fingerprint:
            return
        if part is not None:
            raise ValueError(
                f"{folder}: holds shards of another corpus, encoder or shard size, which a part "
                "does not remove; remove the folder before the parts start"
            )
    for path in (*folder.glob("shard-*"), folder / _MANIFEST) if part is None else ():
        path.unlink(missing_ok=True)
    # Under a name of its own until it is complete: parts may start at the same moment.
    own = record if part is None else folder / f"fingerprint-{part.number}.json"
    write_json(own, fingerprint)
    own.replace(record)


def _publish(plan: _ShardPlan, fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    shards = [
        {"file": plan.path(s).name, "rows": plan.rows(s), "sha256": hash_file(plan.path(s))}
        for s in plan.shards()
    ]
    manifest = {
        **fingerprint,
        "rows": len(plan.corpus),
        "dimension": plan.dimension,
        "shards": shards,
    }
    write_json(plan.folder / _MANIFEST, manifest)
    return manifest
