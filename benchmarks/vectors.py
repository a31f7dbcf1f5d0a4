"""Passage and query vectors for the benchmarks: a synthetic mixture, or rows of a real folder.

The mixture has many Gaussian clusters on the unit sphere. Pure noise would not do: there every list
of an index is equally far from a query, so that approximate search finds nothing.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosearch.engines.retrieval.index_faiss import read_manifest
from cosearch.files.hashes import hash_file

SHARD_ROWS = 16_384
QUERY_PART = 1_000_000
"""Part of the mixture for the queries. The parts of the shards count from 0."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Unit vectors around ``clusters`` random centres, at the distance ``spread`` from them."""

    dimension: int
    clusters: int
    spread: float
    seed: int

    def draw(self, rows: int, part: int) -> np.ndarray:
        """Draw ``[rows, dimension]`` float32 vectors. The same part always gives the same vectors,
        and different parts are independent."""
        centres = np.random.default_rng(self.seed).normal(size=(self.clusters, self.dimension))
        rng = np.random.default_rng([self.seed, part])
        chosen = _unit(centres)[rng.integers(self.clusters, size=rows)]
        return shake(chosen, self.spread, rng)


def shake(vectors: np.ndarray, spread: float, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors at the distance ``spread`` from ``vectors``, in random directions."""
    noise = rng.normal(size=vectors.shape) / math.sqrt(vectors.shape[1])
    return _unit(vectors + spread * noise)


def write_shards(mixture: Mixture, rows: int, folder: Path) -> None:
    """Write a folder of vectors like that of the encode stage."""
    shards = []
    for part, start in enumerate(range(0, rows, SHARD_ROWS)):
        name, count = f"shard-{part:05d}.npy", min(SHARD_ROWS, rows - start)
        np.save(folder / name, mixture.draw(count, part))
        shards.append({"file": name, "rows": count, "sha256": hash_file(folder / name)})
    manifest = {
        "rows": rows,
        "dimension": mixture.dimension,
        "cut_passages": 0,
        "corpus": "synthetic",
        "encoder": {},
        "shards": shards,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def sample_rows(folder: Path, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and vectors of ``count`` random rows of a folder of shards."""
    source = read_manifest(folder, "no finished vectors")
    rng = np.random.default_rng(seed)
    positions = np.sort(rng.choice(source["rows"], min(count, source["rows"]), replace=False))
    found, start = [], 0
    for shard in source["shards"]:
        inside = positions[(positions >= start) & (positions < start + shard["rows"])] - start
        found.append(np.load(folder / shard["file"], mmap_mode="r")[inside])
        start += shard["rows"]
    return positions, np.concatenate(found).astype(np.float32)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)
