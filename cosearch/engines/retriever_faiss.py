"""The fixed dense retriever: an exact inner-product index over encoded shards (Section 4.1).

An index folder holds ``index.faiss`` and ``manifest.json``, which binds it to its corpus and
encoder. Opening it checks every binding and that passages find themselves: an index of another
corpus answers every query, only worse.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import faiss
import numpy as np

from cosearch.core.hashes import hash_file
from cosearch.core.protocols import Retrieve
from cosearch.core.types import Candidate, Passage

_INDEX, _MANIFEST = "index.faiss", "manifest.json"

KINDS: Mapping[str, tuple[str, int]] = {"flat": ("Flat", 4), "fp16": ("SQfp16", 2)}
"""Kind of index -> (FAISS factory string, bytes per dimension). All are exact searches."""


class PassageStore(Protocol):
    """What the retriever needs of a corpus; ``data.corpus.Corpus`` is one."""

    @property
    def sha256(self) -> str:
        """Hash of the rows in order."""

    def __len__(self) -> int: ...

    def passage(self, position: int) -> Passage:
        """The passage at ``position``."""


class TextEncoder(Protocol):
    """What the retriever needs of an encoder; ``engines.encoder.Encoder`` is one."""

    fingerprint: dict[str, Any]

    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        """``[n, dimension]`` float32."""

    def encode_passages(self, passages: Sequence[Passage]) -> np.ndarray:
        """``[n, dimension]`` float32."""


def build_index(vectors: str | Path, folder: str | Path, *, kind: str) -> dict[str, Any]:
    """Build an index from a finished folder of shards, one shard in memory at a time.

    Returns the manifest. Raises ValueError for unfinished or damaged shards, an unknown kind, or an
    index larger than the free memory (naming the smaller kinds).
    """
    if kind not in KINDS:
        raise ValueError(f"index.kind: {kind!r} is none of {', '.join(KINDS)}")
    vectors, folder = Path(vectors), Path(folder)
    source = _read_manifest(vectors, "no finished vectors")
    _check_memory(source["rows"], source["dimension"], kind)
    _set_up_faiss(threads=1)
    index = faiss.index_factory(source["dimension"], KINDS[kind][0], faiss.METRIC_INNER_PRODUCT)
    for shard in source["shards"]:
        index.add(_load_shard(vectors / shard["file"], shard["rows"], source["dimension"]))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MANIFEST).unlink(missing_ok=True)
    aside = folder / f"{_INDEX}.part"
    faiss.write_index(index, str(aside))
    os.replace(aside, folder / _INDEX)
    manifest = {
        "kind": kind,
        "corpus": source["corpus"],
        "encoder": source["encoder"],
        "rows": index.ntotal,
        "dimension": index.d,
        "bytes": (folder / _INDEX).stat().st_size,
        "sha256": hash_file(folder / _INDEX),
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", "utf-8")
    return manifest


class FaissRetriever:
    """The engine behind ``Retrieve``: encodes and searches all new queries of a batch at once.

    Results are cached per query for the life of the object. Order: score, then position; fewer
    than ``n`` candidates come back only when the corpus is smaller. ``self_check`` passages spread
    over the corpus are encoded anew and must rank first for themselves at a rate of at least
    ``self_check_floor``. ``threads`` are those of the search. Raises ValueError when index, corpus
    and encoder do not belong together.
    """

    def __init__(
        self,
        folder: str | Path,
        corpus: PassageStore,
        encoder: TextEncoder,
        *,
        self_check: int,
        self_check_floor: float,
        threads: int = 1,
    ) -> None:
        folder = Path(folder)
        self.manifest = _read_manifest(folder, "no finished index")
        _check_bindings(folder, self.manifest, corpus, encoder)
        _set_up_faiss(threads)
        # Mapped, so that several processes share one copy of the vectors.
        self._index: Any = faiss.read_index(str(folder / _INDEX), faiss.IO_FLAG_MMAP_IFC)
        self._corpus, self._encoder = corpus, encoder
        self._found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.self_check_rate = self._check_self_retrieval(folder, self_check, self_check_floor)

    def __call__(self, requests: Sequence[Retrieve]) -> list[list[Candidate]]:
        """Candidates of each request, best first."""
        self._search_new(requests)
        return [self._candidates(request) for request in requests]

    def _search_new(self, requests: Sequence[Retrieve]) -> None:
        widest = max((self._width(request) for request in requests), default=0)
        new = list(dict.fromkeys(r.query for r in requests if not self._is_cached(r)))
        if new and widest:
            scores, positions = self._search(self._encoder.encode_queries(new), widest)
            self._found.update(
                (query, (scores[row], positions[row])) for row, query in enumerate(new)
            )

    def _width(self, request: Retrieve) -> int:
        return min(request.n, len(self._corpus))

    def _is_cached(self, request: Retrieve) -> bool:
        known = self._found.get(request.query)
        return known is not None and len(known[0]) >= self._width(request)

    def _search(self, vectors: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        scores, positions = self._index.search(vectors, n)
        order = np.lexsort((positions, -scores), axis=1)
        return np.take_along_axis(scores, order, 1), np.take_along_axis(positions, order, 1)

    def _candidates(self, request: Retrieve) -> list[Candidate]:
        width = self._width(request)
        if not width:
            return []
        scores, positions = (found[:width] for found in self._found[request.query])
        return [
            Candidate(self._corpus.passage(int(position)), float(score))
            for score, position in zip(scores, positions, strict=True)
        ]

    def _check_self_retrieval(self, folder: Path, sample: int, floor: float) -> float:
        rows = len(self._corpus)
        positions = np.unique(np.linspace(0, rows - 1, min(sample, rows)).astype(int))
        if not len(positions):
            return 1.0
        passages = [self._corpus.passage(int(position)) for position in positions]
        _, found = self._search(self._encoder.encode_passages(passages), 1)
        rate = float((found[:, 0] == positions).mean())
        if rate < floor:
            raise ValueError(
                f"{folder}: only {rate:.1%} of {len(positions)} passages find themselves, "
                f"the floor is {floor:.1%}: index, corpus and encoder do not match"
            )
        return rate


def _check_bindings(
    folder: Path, manifest: Mapping[str, Any], corpus: PassageStore, encoder: TextEncoder
) -> None:
    pairs = {
        "corpus": (manifest["corpus"], corpus.sha256),
        "rows": (manifest["rows"], len(corpus)),
        "file size": (manifest["bytes"], (folder / _INDEX).stat().st_size),
        **{
            f"encoder {key}": (manifest["encoder"].get(key), encoder.fingerprint.get(key))
            for key in sorted(manifest["encoder"].keys() | encoder.fingerprint.keys())
        },
    }
    for name, (bound, given) in pairs.items():
        if bound != given:
            raise ValueError(f"{folder}: index was built for {name} {bound!r}, found {given!r}")
    if (actual := hash_file(folder / _INDEX)) != manifest["sha256"]:
        raise ValueError(f"{folder / _INDEX}: sha256 {actual}, manifest says {manifest['sha256']}")


def _check_memory(rows: int, dimension: int, kind: str) -> None:
    need = {name: rows * dimension * size for name, (_, size) in KINDS.items()}
    free = _free_memory()
    if free is not None and need[kind] > free:
        smaller = [f"{n} {need[n] / 1e9:.1f} GB" for n in KINDS if need[n] < need[kind]]
        raise ValueError(
            f"index.kind {kind}: needs {need[kind] / 1e9:.1f} GB, free are {free / 1e9:.1f} GB; "
            f"smaller kinds: {', '.join(smaller) or 'none'}"
        )


def _free_memory() -> int | None:
    """Bytes that can be had without swapping, or None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable:")), None)


def _set_up_faiss(threads: int) -> None:
    # Since 1.15 FAISS prefers its own loop to BLAS for batches this small: six times slower.
    faiss.cvar.distance_compute_blas_threshold = 1
    faiss.omp_set_num_threads(threads)


def _load_shard(path: Path, rows: int, dimension: int) -> np.ndarray:
    try:
        vectors = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path}: damaged or missing shard ({error})") from error
    if vectors.shape != (rows, dimension):
        raise ValueError(f"{path}: shape {vectors.shape}, manifest says {(rows, dimension)}")
    return np.asarray(vectors, np.float32)


def _read_manifest(folder: Path, complaint: str) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / _MANIFEST).read_text("utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{folder}: {complaint} ({error})") from error
    return manifest
