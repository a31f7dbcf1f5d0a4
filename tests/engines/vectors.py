"""Clustered vectors with a corpus, as the encode stage leaves them, and a table as encoder."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cosearch.core.types import Passage
from cosearch.data.corpus import write_corpus
from cosearch.engines.retrieval.index_kinds import IndexRecipe
from cosearch.files.hashes import hash_file
from cosearch.params.blocks import Index
from cosearch.params.engines import IndexGpus

DIMENSION = 32


def draw_vectors(rows: int, *, dimension: int = DIMENSION, seed: int = 3) -> np.ndarray:
    """Unit vectors around 24 centres."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(24, dimension))
    drawn = centres[rng.integers(24, size=rows)] + 0.7 * rng.normal(size=(rows, dimension))
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)


def write_vectors(root: Path, vectors: np.ndarray, *, size: int, storage: str = "float32") -> Path:
    """``corpus`` and ``vectors`` below ``root``, in shards of ``size``; passage n is ``pn``."""
    passages = [Passage(f"p{n}", f"title {n}", f"text {n}") for n in range(len(vectors))]
    corpus = write_corpus(passages, root / "corpus", source="drawn")
    folder = root / "vectors"
    folder.mkdir()
    shards = []
    for number, start in enumerate(range(0, len(vectors), size)):
        part, name = vectors[start : start + size], f"shard-{number:05d}.npy"
        np.save(folder / name, part.astype(storage))
        shards.append({"file": name, "rows": len(part), "sha256": hash_file(folder / name)})
    manifest = {
        "corpus": corpus["sha256"],
        "encoder": {"model": "table"},
        "rows": len(vectors),
        "dimension": vectors.shape[1],
        "shards": shards,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    return root


class TableEncoder:
    """A query is the number of a row, a passage the row of its id."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors
        self.fingerprint: dict[str, Any] = {"model": "table"}

    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        return self.vectors[[int(query) for query in queries]]

    def encode_passages(self, passages: Sequence[Passage]) -> np.ndarray:
        return self.vectors[[int(passage.id[1:]) for passage in passages]]


def index_settings(
    recipe: IndexRecipe,
    *,
    self_check: int = 0,
    self_check_floor: float = 0.0,
    gpus: IndexGpus | None = None,
    recall: Mapping[str, float] | None = None,
) -> Index:
    """The index block of the parameters for a recipe."""
    return Index(
        **asdict(recipe),
        threads=1,
        gpus=gpus,
        recall=recall or {},
        self_check=self_check,
        self_check_floor={recipe.kind: self_check_floor},
    )
