"""Compares every kind of index with exact search, and extrapolates the results to 21 M vectors.

Measures recall, bytes, build time and speed. A speed is the ratio to exact search (flat). Both are
timed in turn within one run.
"""

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from benchmarks.vectors import (
    QUERY_PART,
    SHARD_ROWS,
    Mixture,
    sample_rows,
    shake,
    write_shards,
)
from cosearch.engines.retrieval.index_faiss import open_index, read_manifest, write_index
from cosearch.engines.retrieval.index_kinds import KINDS, IndexRecipe
from cosearch.engines.retrieval.index_need import Room, index_need

WIKIPEDIA = 21_015_324
"""Passages of the paper's corpus."""
UNBOUNDED = Room(memory=None, disk=None)


@dataclass(frozen=True, slots=True)
class Measured:
    """Measures of one kind of index. Times are in seconds, ``speed`` is in multiples of flat's."""

    recipe: IndexRecipe
    rows: int
    dimension: int
    recall: float
    itself: float
    bytes_row: float
    train: float
    add: float
    per_second: float
    speed: float


def recipe_for(kind: str, rows: int, dimension: int, seed: int) -> IndexRecipe:
    """Parameters by size: about 4 * sqrt(rows) lists, and one byte of code per 8 numbers."""
    nlist = 2 ** round(math.log2(4 * math.sqrt(rows)))
    nlist = min(nlist, rows)
    return IndexRecipe(
        kind,
        shards=1,
        nlist=nlist,
        nprobe=min(16, nlist),
        pq_m=max(1, dimension // 8),
        hnsw_m=32,
        ef_construction=80,
        ef_search=128,
        train_rows=min(rows, max(64 * nlist, 65_536)),
        seed=seed,
    )


def measure(
    kinds: Sequence[str],
    vectors: Path,
    queries: np.ndarray,
    *,
    k: int,
    repeats: int,
    threads: int,
    seed: int,
) -> Iterator[Measured]:
    """Build and search each kind, and compare it with flat, which comes first."""
    source = read_manifest(vectors, "no finished vectors")
    rows, dimension = source["rows"], source["dimension"]
    positions, own = sample_rows(vectors, 1000, seed)
    with tempfile.TemporaryDirectory() as scratch:
        flat, exact = None, np.empty(0)
        for kind in ("flat", *(kind for kind in kinds if kind != "flat")):
            recipe = recipe_for(kind, rows, dimension, seed)
            folder = Path(scratch) / kind
            index, size, train, add = _build(recipe, vectors, folder, threads)
            found = index.search(queries, k)[1]
            if flat is None:
                flat, exact = index, found
            _time(index, queries, k)  # once to warm up
            pairs = [(_time(flat, queries, k), _time(index, queries, k)) for _ in range(repeats)]
            yield Measured(
                recipe,
                rows,
                dimension,
                recall=_recall(found, exact),
                itself=float((index.search(own, 1)[1][:, 0] == positions).mean()),
                bytes_row=size / rows,
                train=train,
                add=add,
                per_second=len(queries) / statistics.median(own_time for _, own_time in pairs),
                speed=statistics.median(base / own_time for base, own_time in pairs),
            )


def growth(kind: str, factor: float, rows: int) -> tuple[float, float, float]:
    """Factors on training, on adding and on time per query when ``rows`` grow by ``factor``.

    A scan reads all rows. The number of lists grows with the square root of the rows, and so does
    the training sample. A search visits a fixed number of lists, and adding a row compares it with
    every list. Searches and insertions in a graph grow with the logarithm. Codes without lists
    learn from a sample of fixed size.
    """
    depth = math.log(rows * factor) / math.log(rows)
    if kind == "hnsw":
        return 1.0, factor * depth, depth
    if "nlist" in KINDS[kind].parameters:
        return factor, factor**1.5, math.sqrt(factor)
    return 1.0, factor, factor


def render(found: Sequence[Measured], target: int, dimension: int, k: int, threads: int) -> str:
    """Two tables in Markdown: the measures, and what follows for ``target`` vectors."""
    flat = found[0]
    lines = [
        f"# Index kinds at {flat.rows:,} vectors of {flat.dimension} dimensions",
        "",
        f"FAISS {faiss.__version__}, {threads} thread(s). Recall: share of flat's {k} best. "
        "Itself: vectors that rank first for themselves. Speed: multiples of flat's, by turns.",
        "",
        f"| kind | parameters | recall@{k} | itself | bytes/vector | build s | queries/s | speed |",
        "|---|---|---|---|---|---|---|---|",
        *(_measured_row(row) for row in found),
        "",
        f"## By the growth laws: {target:,} vectors of {dimension} dimensions",
        "",
        "Bytes are linear in the vectors (the formula of the pre-flight check, beside it what it "
        "says of the table above: formula over measured). Flat and codes: adding and time a query "
        "linear, training constant. Lists: nlist grows with the square root, nprobe stays, so "
        "training is linear, adding of power 1.5, time per query a square root. Graph: adding "
        "n log n, time per query logarithmic. All are linear in the dimension. Recall is not "
        "extrapolated: with nprobe and efSearch held it falls.",
        "",
        "| kind | file GB | formula/measured | memory to build GB | build h | queries/s |",
        "|---|---|---|---|---|---|",
        *(_target_row(row, target, dimension) for row in found),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the tables."""
    options = _parser().parse_args(arguments)
    faiss.omp_set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        rng = np.random.default_rng([options.seed, QUERY_PART])
        if options.vectors is None:
            mixture = Mixture(
                options.dimension, max(1, options.rows // 100), options.spread, options.seed
            )
            vectors = Path(scratch)
            write_shards(mixture, options.rows, vectors)
            queries = mixture.draw(options.queries, QUERY_PART)
        else:
            vectors = options.vectors
            near = sample_rows(vectors, options.queries, options.seed + 1)[1]
            queries = shake(near, options.spread, rng)
        found = []
        for row in measure(
            options.kinds,
            vectors,
            queries,
            k=options.k,
            repeats=options.repeats,
            threads=options.threads,
            seed=options.seed,
        ):
            print(_measured_row(row), flush=True)
            found.append(row)
    dimension = options.target_dimension or found[0].dimension
    text = render(found, options.target, dimension, options.k, options.threads)
    options.out.write_text(text, "utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faiss_size", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="Markdown file to write")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--vectors", type=Path, help="folder of the encode stage; queries near rows")
    given.add_argument("--rows", type=int, help="so many clustered synthetic vectors")
    parser.add_argument("--dimension", type=int, default=384, help="of synthetic vectors")
    parser.add_argument("--spread", type=float, default=0.6, help="of clusters, or of queries")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--queries", type=int, default=512)
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", type=int, default=WIKIPEDIA, help="vectors to extrapolate to")
    parser.add_argument("--target-dimension", type=int, help="default: as measured")
    return parser


def _build(
    recipe: IndexRecipe, vectors: Path, folder: Path, threads: int
) -> tuple[Any, int, float, float]:
    """Build an index. Returns it with its bytes, and the seconds of training and of adding.

    The pace after the first shard separates the two. With a single shard all time counts as adding.
    """
    marks: list[tuple[float, int]] = []
    start = time.perf_counter()
    manifest = write_index(
        vectors,
        folder,
        recipe,
        room=UNBOUNDED,
        recall={},
        threads=threads,
        progress=lambda done, _: marks.append((time.perf_counter(), done)),
    )
    seconds = time.perf_counter() - start
    (first, few), (last, rows) = marks[0], marks[-1]
    pace = (last - first) / (rows - few) if rows > few else math.inf
    train = max(0.0, first - start - pace * few)
    size = sum(file["bytes"] for file in manifest["files"])
    return open_index(folder, manifest, None), size, train, seconds - train


def _time(index: Any, queries: np.ndarray, k: int) -> float:
    start = time.perf_counter()
    for row in range(0, len(queries), 64):
        index.search(queries[row : row + 64], k)
    return time.perf_counter() - start


def _recall(found: np.ndarray, exact: np.ndarray) -> float:
    pairs = zip(found, exact, strict=True)
    return float(np.mean([len(np.intersect1d(a, b[b >= 0])) / (b >= 0).sum() for a, b in pairs]))


def _measured_row(row: Measured) -> str:
    names = ("train_rows", "seed")
    used = ", ".join(f"{k} {v}" for k, v in row.recipe.used().items() if k not in names)
    return (
        f"| {row.recipe.kind} | {used} | {row.recall:.3f} | {row.itself:.3f} | {row.bytes_row:.1f} "
        f"| {row.train + row.add:.1f} | {row.per_second:.0f} | {row.speed:.2f} |"
    )


def _target_row(row: Measured, target: int, dimension: int) -> str:
    wider, factor = dimension / row.dimension, target / row.rows
    train, add, query = growth(row.recipe.kind, factor, row.rows)
    grown = replace(
        recipe_for(row.recipe.kind, target, dimension, seed=0),
        nlist=round((row.recipe.nlist or 1) * math.sqrt(factor)),
    )
    need = index_need(grown, rows=target, dimension=dimension, shard_rows=SHARD_ROWS)
    shape = {"rows": row.rows, "dimension": row.dimension, "shard_rows": SHARD_ROWS}
    said = index_need(row.recipe, **shape).bytes_file / row.rows / row.bytes_row
    hours = (row.train * train + row.add * add) * wider / 3600
    return (
        f"| {row.recipe.kind} | {need.bytes_file / 1e9:.1f} | {said:.3f} "
        f"| {need.bytes_build / 1e9:.1f} | {hours:.2f} | {row.per_second / query / wider:.2f} |"
    )


if __name__ == "__main__":
    main()
