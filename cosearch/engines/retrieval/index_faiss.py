"""Build an index from encoded shards with bounded memory, and open it memory-mapped (Section 4.1).

An index folder holds one or more FAISS files and ``manifest.json``, written last, which binds them
to corpus, encoder and recipe. With one thread the same shards give the same bytes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from cosearch.core.protocols import ShowProgress
from cosearch.engines.retrieval.index_kinds import KINDS, IndexRecipe, check_sample, empty_index
from cosearch.engines.retrieval.index_need import Room, check_room, index_need
from cosearch.files.durable import replace_file
from cosearch.files.hashes import hash_file
from cosearch.params.engines import IndexGpus

MANIFEST = "manifest.json"


def write_index(
    vectors: str | Path,
    folder: str | Path,
    recipe: IndexRecipe,
    *,
    room: Room,
    recall: Mapping[str, float],
    threads: int,
    progress: ShowProgress,
) -> dict[str, Any]:
    """Build an index from a finished folder of shards and return its manifest.

    In memory are one encoded shard, the training sample and one index file of ``recipe.shards``.
    ``recall`` is told beside the kinds that would fit in ``room``; ``progress`` is called with
    vectors after every encoded shard. Raises ValueError for
    unfinished or damaged shards and for an index with more needs than there is room.
    """
    vectors, folder = Path(vectors), Path(folder)
    source = read_manifest(vectors, "no finished vectors")
    shape = {
        "rows": source["rows"],
        "dimension": source["dimension"],
        "shard_rows": max((shard["rows"] for shard in source["shards"]), default=0),
    }
    check_room(index_need(recipe, **shape), room, phase="build", recall=recall, **shape)
    _check_shards(vectors, source["shards"])
    set_up_faiss(threads)
    empty = empty_index(recipe, source["dimension"])
    _train(empty, recipe, vectors, source)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (folder / MANIFEST, *folder.glob("index*.faiss*")):
        stale.unlink(missing_ok=True)
    files = [
        _write_part(empty, vectors, source, folder / name, rows, progress)
        for name, rows in _parts(source["rows"], recipe.shards)
    ]
    manifest = {
        "kind": recipe.kind,
        "parameters": recipe.used(),
        "corpus": source["corpus"],
        "encoder": source["encoder"],
        "rows": source["rows"],
        "dimension": source["dimension"],
        "cut_passages": source["cut_passages"],
        "shard_rows": shape["shard_rows"],
        "files": files,
    }
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    replace_file(folder / MANIFEST, lambda aside: aside.write_text(text, "utf-8"))
    return manifest


def open_index(folder: str | Path, manifest: Mapping[str, Any], gpus: IndexGpus | None) -> Any:
    """The FAISS index of a folder. Mapped, so that several processes share one copy of it.

    With ``gpus`` it is copied there: raises ValueError for a kind or a number of files that FAISS
    cannot place on GPUs, and where it sees none.
    """
    if gpus is not None:
        _check_gpus(manifest)
    parts = [
        faiss.read_index(str(Path(folder) / file["file"]), faiss.IO_FLAG_MMAP_IFC)
        for file in manifest["files"]
    ]
    if gpus is not None:
        options = faiss.GpuMultipleClonerOptions()
        options.shard, options.useFloat16 = gpus.spread, gpus.float16
        return faiss.index_cpu_to_all_gpus(parts[0], options)
    if len(parts) == 1:
        return parts[0]
    shards: Any = faiss.IndexShards  # its stub lacks this signature
    together = shards(manifest["dimension"], False, True)  # no threads of its own, ids go on
    for part in parts:
        together.add_shard(part)
    return together


def same_vectors(index: Any, left: int, right: int) -> bool:
    """Whether an index stores equal vectors at two positions; False for a kind that keeps its
    vectors in lists, from which FAISS cannot read one back."""
    try:
        return bool(np.array_equal(_stored(index, left), _stored(index, right)))
    except RuntimeError:
        return False


def _stored(index: Any, position: int) -> np.ndarray:
    """The vector at ``position``, from the file that holds it."""
    if type(index) is not faiss.IndexShards:
        return np.asarray(index.reconstruct(position))
    shards: Any = index  # its stub lacks these methods
    for part in map(shards.at, range(shards.count())):
        if position < part.ntotal:
            return np.asarray(part.reconstruct(position))
        position -= part.ntotal
    raise RuntimeError(f"no vector at position {position}")


def set_up_faiss(threads: int) -> None:
    """Bound FAISS's threads and let it search batches by matrix products."""
    # Since 1.15 FAISS prefers its own loop to BLAS for batches this small: six times slower.
    faiss.cvar.distance_compute_blas_threshold = 1
    faiss.omp_set_num_threads(threads)


def read_manifest(folder: Path, complaint: str) -> dict[str, Any]:
    """The manifest of a finished folder. Raises ValueError with ``complaint`` without one."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(f"{folder}: {complaint} ({error})") from error
    return manifest


def draw_sample(rows: int, size: int, seed: int) -> np.ndarray:
    """Positions of ``size`` of ``rows`` vectors in ascending order, all of them where fewer."""
    if size >= rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))


def _train(index: Any, recipe: IndexRecipe, vectors: Path, source: Mapping[str, Any]) -> None:
    if not KINDS[recipe.kind].trained:
        return
    used = recipe.used()
    chosen = draw_sample(source["rows"], used["train_rows"], used["seed"])
    check_sample(recipe, len(chosen))
    sample = np.empty((len(chosen), source["dimension"]), np.float32)
    for start, shard in _shards(vectors, source):
        first, last = np.searchsorted(chosen, (start, start + len(shard)))
        sample[first:last] = shard[chosen[first:last] - start]
    index.train(sample)


def _parts(rows: int, shards: int) -> list[tuple[str, range]]:
    """File names with the vectors that go there; a range each, equal but for one vector."""
    names = ["index.faiss"] if shards == 1 else [f"index-{n:03d}.faiss" for n in range(shards)]
    bounds = [rows * n // shards for n in range(shards + 1)]
    return [(name, range(*bounds[n : n + 2])) for n, name in enumerate(names)]


def _check_shards(vectors: Path, shards: Sequence[Mapping[str, Any]]) -> None:
    for shard in shards:
        path = vectors / shard["file"]
        if not path.is_file() or hash_file(path) != shard["sha256"]:
            raise ValueError(f"{path}: damaged or missing shard; encode the corpus again")


def _write_part(
    empty: Any,
    vectors: Path,
    source: Mapping[str, Any],
    path: Path,
    rows: range,
    progress: ShowProgress,
) -> dict[str, Any]:
    index = faiss.clone_index(empty)
    for start, shard in _shards(vectors, source, rows):
        index.add(np.asarray(shard[max(0, rows.start - start) : rows.stop - start], np.float32))
        progress(rows.start + index.ntotal, source["rows"])
    replace_file(path, lambda aside: faiss.write_index(index, str(aside)))
    size, sha256 = path.stat().st_size, hash_file(path)
    return {"file": path.name, "rows": index.ntotal, "bytes": size, "sha256": sha256}


def _shards(
    vectors: Path, source: Mapping[str, Any], rows: range | None = None
) -> Iterator[tuple[int, np.ndarray]]:
    """Shards that hold any of ``rows``, each memory-mapped, with the position of its first row."""
    start = 0
    for shard in source["shards"]:
        stop = start + shard["rows"]
        if rows is None or (start < rows.stop and stop > rows.start):
            yield start, np.load(vectors / shard["file"], mmap_mode="r")
        start = stop


def _check_gpus(manifest: Mapping[str, Any]) -> None:
    able = [name for name, kind in KINDS.items() if kind.on_gpu]
    if manifest["kind"] not in able:
        raise ValueError(
            f"index.gpus: FAISS has no kind {manifest['kind']} on GPUs, only {', '.join(able)}"
        )
    if len(manifest["files"]) > 1:
        raise ValueError("index.gpus: needs index.shards 1; FAISS itself spreads it over the GPUs")
    if not faiss.get_num_gpus():
        raise ValueError(
            "index.gpus: FAISS sees no GPU here; install the gpu extra on a machine with one, "
            "or set index.gpus to null"
        )
