"""One contract for every kind of index: what it finds, keeps, refuses, and writes twice alike."""

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosearch.core.protocols import Retrieve
from cosearch.data.corpus import Corpus
from cosearch.engines.retrieval.index_faiss import (
    draw_sample,
    open_index,
    same_vectors,
    write_index,
)
from cosearch.engines.retrieval.index_kinds import KINDS, IndexRecipe, check_sample
from cosearch.engines.retrieval.index_need import Room, index_need
from cosearch.engines.retrieval.retriever_faiss import FaissRetriever
from cosearch.params.engines import IndexGpus
from tests.engines.vectors import (
    DIMENSION,
    TableEncoder,
    draw_vectors,
    index_settings,
    write_vectors,
)

ROWS = 600
VECTORS = draw_vectors(ROWS)
VECTORS[[17, 201, 598]] = VECTORS[400]  # duplicates
FLAT = IndexRecipe(
    "flat",
    shards=1,
    nlist=12,
    nprobe=4,
    pq_m=16,
    hnsw_m=8,
    ef_construction=40,
    ef_search=64,
    train_rows=500,
    seed=1,
)
FLOORS = {"pq": 0.9, "ivf_pq": 0.9, "hnsw": 0.95}
RECALL = {"pq": 0.6, "ivf_pq": 0.6, "ivf_flat": 0.8, "ivf_sq8": 0.8, "sq8": 0.95, "hnsw": 0.95}
ROOM = Room(memory=None, disk=None)
every_kind = pytest.mark.parametrize("kind", KINDS)
shards = pytest.mark.parametrize("shards", [1, 3])


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_vectors(tmp_path_factory.mktemp("source"), VECTORS, size=128)


def recipe(kind: str, shards: int = 1) -> IndexRecipe:
    return replace(FLAT, kind=kind, shards=shards)


def build(source: Path, target: Path, made: IndexRecipe, room: Room = ROOM) -> dict[str, Any]:
    return write_index(
        source / "vectors",
        target,
        made,
        room=room,
        recall={},
        threads=1,
        progress=lambda done, total: None,
    )


def opened(
    source: Path,
    index: Path,
    made: IndexRecipe,
    *,
    corpus: Path | None = None,
    floor: float | None = None,
    gpus: IndexGpus | None = None,
    room: Room = ROOM,
) -> FaissRetriever:
    return FaissRetriever(
        index,
        Corpus(corpus or source / "corpus"),
        TableEncoder(VECTORS),
        index_settings(
            made,
            self_check=0 if floor is None else 16,
            self_check_floor=floor or 0.0,
            gpus=gpus,
            recall={"sq8": 0.99},
        ),
        room=room,
    )


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@every_kind
@shards
def test_candidates_are_passages_by_score_then_position(
    source: Path, tmp_path: Path, kind: str, shards: int
) -> None:
    made = recipe(kind, shards)
    build(source, tmp_path, made)
    retriever = opened(source, tmp_path, made)
    queries = [3, 77, 400, 555]
    found = retriever([Retrieve(str(query), 20) for query in queries])
    recalled = []
    for query, candidates in zip(queries, found, strict=True):
        positions = [int(candidate.passage.id[1:]) for candidate in candidates]
        assert len(set(positions)) == len(positions) == 20
        order = [(-c.score, position) for c, position in zip(candidates, positions, strict=True)]
        assert order == sorted(order)
        exact = np.argsort(-(VECTORS @ VECTORS[query]), kind="stable")[:20]
        recalled.append(len(set(exact.tolist()) & set(positions)) / 20)
    assert np.mean(recalled) >= RECALL.get(kind, 0.999)
    assert [int(c.passage.id[1:]) for c in found[2][:4]] == [17, 201, 400, 598]


@every_kind
@shards
def test_asking_for_more_than_there_is_gives_each_passage_once(
    source: Path, tmp_path: Path, kind: str, shards: int
) -> None:
    made = recipe(kind, shards)
    build(source, tmp_path, made)
    (found,) = opened(source, tmp_path, made)([Retrieve("5", ROWS + 100)])
    ids = {candidate.passage.id for candidate in found}
    assert len(ids) == len(found)
    if "nlist" in KINDS[kind].parameters:
        assert ROWS / 12 < len(found) < ROWS, "4 of 12 lists"
    elif kind != "hnsw":
        assert len(found) == ROWS
    assert {candidate.score > -2 for candidate in found} == {True}


@every_kind
def test_passages_find_themselves(source: Path, tmp_path: Path, kind: str) -> None:
    made = recipe(kind)
    build(source, tmp_path, made)
    floor = FLOORS.get(kind, 1.0)
    assert opened(source, tmp_path, made, floor=floor).self_check_rate >= floor


@every_kind
@shards
def test_two_builds_are_alike_to_the_byte(
    source: Path, tmp_path: Path, kind: str, shards: int
) -> None:
    made = recipe(kind, shards)
    first = build(source, tmp_path / "a", made)
    build(source, tmp_path / "b", made)
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert [file["rows"] for file in first["files"]] == [ROWS // shards] * shards
    build(source, tmp_path / "a", recipe("flat"))
    assert sorted(files(tmp_path / "a")) == ["index.faiss", "manifest.json"], "no stale files"


@pytest.mark.parametrize("kind", ["pq", "ivf_flat", "hnsw"])
def test_the_seed_counts(source: Path, tmp_path: Path, kind: str) -> None:
    build(source, tmp_path / "a", recipe(kind))
    build(source, tmp_path / "b", replace(recipe(kind), seed=2))
    assert files(tmp_path / "a")["index.faiss"] != files(tmp_path / "b")["index.faiss"]


def test_flat_is_what_faiss_writes_of_all_vectors(source: Path, tmp_path: Path) -> None:
    build(source, tmp_path, recipe("flat"))
    index = faiss.IndexFlatIP(DIMENSION)
    index.add(VECTORS)
    faiss.write_index(index, str(tmp_path / "whole"))
    assert files(tmp_path)["index.faiss"] == files(tmp_path)["whole"]


@every_kind
@shards
def test_need_foretells_the_size(source: Path, tmp_path: Path, kind: str, shards: int) -> None:
    made = recipe(kind, shards)
    manifest = build(source, tmp_path, made)
    need = index_need(made, rows=ROWS, dimension=DIMENSION, shard_rows=128)
    actual = sum(file["bytes"] for file in manifest["files"])
    assert need.bytes_file == pytest.approx(actual, rel=0.01, abs=512 * shards)
    assert need.bytes_serve == need.bytes_file < need.bytes_build + need.bytes_file


@pytest.mark.parametrize("kind", ["fp16", "sq8", "pq", "ivf_sq8", "ivf_pq", "flat"])
def test_one_shard_at_a_time_is_in_memory(tmp_path: Path, kind: str) -> None:
    """Half-precision shards must be widened, and what is widened shows in Python's memory."""
    vectors = draw_vectors(16_384, dimension=64)
    write_vectors(tmp_path, vectors, size=256, storage="float16")
    made = replace(recipe(kind), train_rows=512)
    shard = 256 * 64 * 4
    sample = 512 * 64 * 4 if KINDS[kind].trained else 0
    build(tmp_path, tmp_path / "warm", made)
    tracemalloc.start()
    build(tmp_path, tmp_path / "index", made)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert shard <= peak < 2 * shard + 2 * sample + 300_000 < vectors.nbytes / 4


@given(rows=st.integers(1, 5000), size=st.integers(1, 6000), seed=st.integers(0, 9))
def test_the_sample_is_distinct_rows_in_order(rows: int, size: int, seed: int) -> None:
    drawn = draw_sample(rows, size, seed)
    assert len(drawn) == min(rows, size)
    assert (np.diff(drawn) > 0).all()
    assert 0 <= drawn[0] <= drawn[-1] < rows
    np.testing.assert_array_equal(drawn, draw_sample(rows, size, seed))


@every_kind
def test_another_corpus_and_damage_are_refused(source: Path, tmp_path: Path, kind: str) -> None:
    made = recipe(kind, shards=2)
    build(source, tmp_path / "index", made)
    other = write_vectors(tmp_path / "other", VECTORS[:-1], size=128)
    with pytest.raises(ValueError, match="index was built for corpus"):
        opened(source, tmp_path / "index", made, corpus=other / "corpus")
    path = tmp_path / "index" / "index-001.faiss"
    content = path.read_bytes()
    path.write_bytes(content[:-64])
    with pytest.raises(ValueError, match=r"index-001\.faiss: \d+ bytes, manifest says"):
        opened(source, tmp_path / "index", made)
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(ValueError, match=r"index-001\.faiss: sha256"):
        opened(source, tmp_path / "index", made)
    path.unlink()
    with pytest.raises(ValueError, match=r"index-001\.faiss: no such file"):
        opened(source, tmp_path / "index", made)


def test_an_index_of_another_recipe_is_refused(source: Path, tmp_path: Path) -> None:
    made = recipe("ivf_flat")
    build(source, tmp_path, made)
    wrong = {
        "kind 'ivf_flat', found 'flat'": recipe("flat"),
        "shards 1, found 2": recipe("ivf_flat", shards=2),
        "parameter nprobe 4, found 5": replace(made, nprobe=5),
    }
    for message, other in wrong.items():
        with pytest.raises(ValueError, match=f"index was built for {message}"):
            opened(source, tmp_path, other)
    opened(source, tmp_path, replace(made, pq_m=4))  # of no use to this kind


def test_recipes_that_cannot_be_are_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"kind": "lsh"}, "index.kind: 'lsh' is none of flat, fp16, sq8"),
        ({"kind": "ivf_pq", "nlist": None}, "index.nlist: kind ivf_pq needs it"),
        ({"kind": "hnsw", "hnsw_m": 1}, "index.hnsw_m: 1 is less than 2"),
        ({"shards": 0}, "index.shards: 0 is less than 1"),
    ]
    for changes, message in cases:
        with pytest.raises(ValueError, match=message):
            replace(FLAT, **changes)
    replace(FLAT, nlist=None, pq_m=None, seed=None)  # flat needs none of them


def test_too_few_vectors_to_learn_from_are_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pq_m: 5 does not divide the dimension 32"):
        build(source, tmp_path, replace(recipe("pq"), pq_m=5))
    with pytest.raises(ValueError, match="kind ivf_flat learns 900 centroids, from 500 vectors"):
        build(source, tmp_path, replace(recipe("ivf_flat"), nlist=900))
    with pytest.raises(ValueError, match="kind pq learns 256 centroids, from 255 vectors"):
        check_sample(recipe("pq"), 255)
    assert not list(tmp_path.iterdir()), "nothing is written before"


def test_bad_shards_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no finished vectors"):
        build(tmp_path, tmp_path / "index", FLAT)
    write_vectors(tmp_path, VECTORS, size=128)
    shard = tmp_path / "vectors" / "shard-00001.npy"
    content = bytearray(shard.read_bytes())
    content[-9] ^= 1
    shard.write_bytes(content)
    with pytest.raises(ValueError, match=r"shard-00001\.npy: damaged or missing"):
        build(tmp_path, tmp_path / "index", FLAT)
    shard.unlink()
    with pytest.raises(ValueError, match=r"shard-00001\.npy: damaged or missing"):
        build(tmp_path, tmp_path / "index", FLAT)
    assert not (tmp_path / "index" / "manifest.json").exists()


def test_gpus_are_refused_where_they_cannot_serve(source: Path, tmp_path: Path) -> None:
    gpus = IndexGpus(spread=True, float16=True)
    for made, message in (
        (recipe("hnsw"), "no kind hnsw on GPUs, only flat, ivf_flat, ivf_sq8, ivf_pq"),
        (recipe("flat", shards=2), "needs index.shards 1"),
    ):
        build(source, tmp_path, made)
        with pytest.raises(ValueError, match=message):
            opened(source, tmp_path, made, gpus=gpus)


@pytest.mark.skipif(faiss.get_num_gpus() > 0, reason="FAISS sees a GPU")
def test_a_machine_without_gpus_says_so(source: Path, tmp_path: Path) -> None:
    manifest = build(source, tmp_path, FLAT)
    with pytest.raises(ValueError, match="FAISS sees no GPU here; install the gpu extra"):
        open_index(tmp_path, manifest, IndexGpus(spread=False, float16=False))


@pytest.mark.skipif(faiss.get_num_gpus() == 0, reason="FAISS sees no GPU")
@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.on_gpu])
def test_gpus_find_what_the_cpu_finds(source: Path, tmp_path: Path, kind: str) -> None:
    made = recipe(kind)
    build(source, tmp_path, made)
    request = [Retrieve("3", 10)]
    (there,) = opened(source, tmp_path, made, gpus=IndexGpus(spread=True, float16=False))(request)
    (here,) = opened(source, tmp_path, made)(request)
    assert len({c.passage.id for c in there} & {c.passage.id for c in here}) >= 9


def test_room_is_checked_before_building_and_at_opening(source: Path, tmp_path: Path) -> None:
    tight = Room(memory=60_000, disk=None)
    with pytest.raises(ValueError, match="to build 600 vectors of 32 dimensions, memory needed"):
        build(source, tmp_path, FLAT, room=tight)
    assert not list(tmp_path.iterdir())
    build(source, tmp_path, FLAT)
    with pytest.raises(ValueError, match=r"to serve 600 vectors.*sq8 \(file 0\.0 GB.*recall 0\.99"):
        opened(source, tmp_path, FLAT, room=tight)
    manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert (manifest["kind"], manifest["parameters"]) == ("flat", {})


@pytest.mark.parametrize("kind", ["one", "shards"])
def test_equal_vectors_are_known_wherever_they_are_stored(kind: str) -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 0], [0.5, 0.5]], np.float32)
    files = [vectors] if kind == "one" else [vectors[:1], vectors[1:]]
    parts = [faiss.IndexFlatIP(2) for _ in files]
    for part, own in zip(parts, files, strict=True):
        part.add(own)
    index: Any = parts[0]
    if kind == "shards":
        index = faiss.IndexShards(2, False, True)
        for part in parts:
            index.add_shard(part)
    assert same_vectors(index, 0, 2)
    assert not same_vectors(index, 0, 1) and not same_vectors(index, 1, 3)


def test_a_kind_that_gives_no_vector_back_knows_none_equal() -> None:
    lists: Any = faiss.IndexIVFFlat(faiss.IndexFlatL2(2), 2, 1)
    lists.train(np.eye(2, dtype=np.float32))
    lists.add(np.ones((2, 2), np.float32))
    assert not same_vectors(lists, 0, 1)
