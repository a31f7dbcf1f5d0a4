"""Encoder, shards, index and retriever, end to end on a micro model."""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import torch

from cosearch.core.protocols import Retrieve
from cosearch.core.types import Passage
from cosearch.data.corpus import Corpus, write_corpus
from cosearch.data.encode import encode_corpus
from cosearch.engines.retrieval.encoder import DenseEncoder
from cosearch.engines.retrieval.index_faiss import write_index
from cosearch.engines.retrieval.index_kinds import IndexRecipe
from cosearch.engines.retrieval.index_need import Room
from cosearch.engines.retrieval.retriever_faiss import FaissRetriever
from cosearch.files.hashes import hash_folder
from cosearch.params.blocks import Encoder
from tests.engines.micro_encoder import write_micro_encoder
from tests.engines.vectors import index_settings

WORDS = [f"w{n}" for n in range(60)]
SETTINGS = Encoder(
    query_prefix="w0 ",
    passage_prefix="w1 ",
    pooling="mean",
    normalize=True,
    max_length=24,
    batch_size=4,
    dtype="float32",
    device="cpu",
    storage="float32",
    shard_size=16,
    processes=1,
)
FLAT = IndexRecipe("flat", shards=1)
ROOM = Room(memory=None, disk=None)


def changed(**changes: Any) -> Encoder:
    """The settings with ``changes``, which the parameters' own schema does not check."""
    return SETTINGS.model_copy(update=changes)


def draw_passages(number: int) -> list[Passage]:
    rng = np.random.default_rng(5)
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 18))) for _ in range(number)]
    return [Passage(f"p{n}", f"w{n % 60}", text) for n, text in enumerate(texts)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_micro_encoder(tmp_path_factory.mktemp("model") / "encoder", WORDS)


@pytest.fixture(scope="module")
def encoder(model: Path) -> DenseEncoder:
    return DenseEncoder(model, SETTINGS)


@pytest.fixture(scope="module")
def built(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with corpus, vectors and index of 50 passages."""
    root = tmp_path_factory.mktemp("built")
    write_corpus(draw_passages(50), root / "corpus", source="drawn")
    encode(root, model)
    build(root)
    return root


def build(root: Path) -> dict[str, Any]:
    return write_index(
        root / "vectors",
        root / "index",
        FLAT,
        room=ROOM,
        recall={},
        threads=1,
        progress=lambda done, total: None,
    )


def encode(root: Path, model: Path) -> None:
    encode_corpus(
        root / "corpus",
        root / "vectors",
        functools.partial(DenseEncoder, model, SETTINGS, 1),
        SETTINGS,
        progress=lambda done, total: None,
    )


def open_retriever(
    root: Path, encoder: Any, *, self_check: int = 10, self_check_floor: float = 1.0
) -> FaissRetriever:
    return FaissRetriever(
        root / "index",
        Corpus(root / "corpus"),
        encoder,
        index_settings(FLAT, self_check=self_check, self_check_floor=self_check_floor),
        room=ROOM,
    )


def test_vectors_are_unit_rows_in_the_order_of_the_texts(encoder: DenseEncoder) -> None:
    passages = draw_passages(11)
    vectors = encoder.encode_passages(passages)
    assert vectors.shape == (11, 32)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-6)
    one_by_one = np.concatenate([encoder.encode_passages([passage]) for passage in passages])
    np.testing.assert_allclose(vectors, one_by_one, atol=1e-6)
    assert encoder.encode_queries([]).shape == (0, 32)


def test_prefixes_and_the_cut_count(encoder: DenseEncoder) -> None:
    passage = Passage("p", "w5", "w6 w7")
    assert np.allclose(encoder.encode_passages([passage]), encoder.encode_passages([passage]))
    assert not np.allclose(encoder.encode_passages([passage]), encoder.encode_queries(["w5 w6 w7"]))
    long = " ".join(["w9"] * 40)
    cut = encoder.encode_queries([long, f"{long} w10"])
    np.testing.assert_array_equal(cut[0], cut[1])


def test_texts_that_are_read_in_part_are_counted(model: Path) -> None:
    short = DenseEncoder(model, changed(max_length=8, query_prefix="", passage_prefix=""))
    queries = [" ".join(["w9"] * count) for count in range(1, 20)]
    cut = short.cut_queries(queries)
    assert cut == [query for query in queries if len(query.split()) > len(queries) - len(cut)]
    assert 0 < len(cut) < len(queries)
    same = short.encode_queries(cut)
    np.testing.assert_allclose(same, np.repeat(same[:1], len(cut), axis=0), atol=1e-6)
    short.encode_passages([Passage("p", "w9", query) for query in queries])
    short.encode_passages([Passage("p", "w9", "w9")])
    assert short.cut_passages == len(cut) + 1
    assert short.cut_queries([]) == []


def test_mean_pooling_ignores_padding(model: Path) -> None:
    wide = DenseEncoder(model, SETTINGS)
    alone = wide.encode_queries(["w5"])
    beside = wide.encode_queries(["w5", " ".join(WORDS[:18])])
    np.testing.assert_allclose(beside[:1], alone, atol=1e-6)


def test_bfloat16_is_close_and_another_fingerprint(model: Path, encoder: DenseEncoder) -> None:
    half = DenseEncoder(model, changed(dtype="bfloat16"))
    passages = draw_passages(5)
    cosines = (half.encode_passages(passages) * encoder.encode_passages(passages)).sum(1)
    assert cosines.min() > 0.99
    assert half.fingerprint != encoder.fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "int8"}, "dtype 'int8'"),
        ({"pooling": "max"}, "pooling 'max'"),
        ({"device": "tpu"}, "device 'tpu'"),
        ({"max_length": 65}, r"max_length=65: .* has 64 positions; set it to 64"),
    ],
)
def test_unknown_settings_are_refused(model: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DenseEncoder(model, changed(**changes))
    with pytest.raises(ValueError, match=r"no model folder \(config.json is missing\)"):
        DenseEncoder(model / "nowhere", SETTINGS)


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch sees a GPU")
def test_a_gpu_that_is_not_there_is_refused(model: Path) -> None:
    with pytest.raises(ValueError, match="torch sees no GPU here"):
        DenseEncoder(model, changed(device="cuda"))


def test_the_model_hash_sees_contents_and_skips_hidden_files(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"1")
    first = hash_folder(tmp_path)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "x").write_bytes(b"2")
    assert hash_folder(tmp_path) == first
    (tmp_path / "a.bin").write_bytes(b"2")
    assert hash_folder(tmp_path) != first


def test_the_index_is_exact(built: Path, encoder: DenseEncoder) -> None:
    corpus = Corpus(built / "corpus")
    queries = ["w3 w4 w5", "w50 w2", "w9"]
    found = open_retriever(built, encoder)([Retrieve(query, 50) for query in queries])
    scores = encoder.encode_queries(queries) @ encoder.encode_passages(corpus.passages(0, 50)).T
    for candidates, row in zip(found, scores, strict=True):
        by_id = {candidate.passage.id: candidate.score for candidate in candidates}
        assert by_id == pytest.approx({f"p{n}": float(value) for n, value in enumerate(row)})
        ranked = [candidate.score for candidate in candidates]
        assert ranked == sorted(ranked, reverse=True)


def test_an_engine_answers_in_order_and_never_asks_twice(
    built: Path, encoder: DenseEncoder
) -> None:
    asked: list[list[str]] = []

    class Counting:
        fingerprint = encoder.fingerprint
        encode_passages = staticmethod(encoder.encode_passages)

        def encode_queries(self, queries: list[str]) -> np.ndarray:
            asked.append(list(queries))
            return encoder.encode_queries(queries)

    retriever = open_retriever(built, Counting(), self_check=0)
    requests = [Retrieve("w5", 3), Retrieve("w8", 7), Retrieve("w5", 2)]
    first, second, third = retriever(requests)
    assert [len(first), len(second), len(third)] == [3, 7, 2]
    assert first[:2] == third
    assert retriever(requests) == [first, second, third]
    assert retriever([Retrieve("w5", 7)])[0][:3] == first
    assert asked == [["w5", "w8"]], "the batch was searched as deep as its deepest request"
    deeper = retriever([Retrieve("w5", 20), Retrieve("w9", 1)])
    assert asked[1:] == [["w5", "w9"]]
    assert [c.passage.id for c in deeper[0][:3]] == [c.passage.id for c in first]
    assert retriever([]) == []
    assert retriever([Retrieve("w7", 0)]) == [[]]


def test_a_small_corpus_gives_fewer_candidates(built: Path, encoder: DenseEncoder) -> None:
    (found,) = open_retriever(built, encoder)([Retrieve("w5", 80)])
    assert len(found) == 50


def test_equal_scores_come_in_the_order_of_the_corpus(model: Path, tmp_path: Path) -> None:
    words = ["w7", "w3", "w5", "w7", "w9", "w7"]
    alike = [Passage(f"p{n}", word, f"u{n}") for n, word in enumerate(words)]
    write_corpus(alike, tmp_path / "corpus", source="alike")
    encode(tmp_path, model)
    build(tmp_path)
    encoder = DenseEncoder(model, SETTINGS)
    (found,) = open_retriever(tmp_path, encoder, self_check=0)([Retrieve("w7", 6)])
    tied = [int(c.passage.id[1:]) for c in found if c.passage.title == "w7"]
    assert tied == [0, 3, 5]


def test_batched_search_uses_blas_on_one_thread(built: Path, encoder: DenseEncoder) -> None:
    open_retriever(built, encoder)
    assert faiss.cvar.distance_compute_blas_threshold == 1
    assert faiss.omp_get_max_threads() == 1


def test_an_index_of_another_corpus_is_refused(
    built: Path, encoder: DenseEncoder, tmp_path: Path
) -> None:
    write_corpus(draw_passages(50)[::-1], tmp_path / "corpus", source="turned")
    (tmp_path / "index").symlink_to(built / "index")
    with pytest.raises(ValueError, match=r"index was built for corpus '[0-9a-f]{64}', found '"):
        open_retriever(tmp_path, encoder)


@pytest.mark.parametrize(
    ("key", "value"),
    [("query_prefix", "q "), ("passage_prefix", ""), ("max_length", 12), ("normalize", False)],
)
def test_an_index_of_other_settings_is_refused(
    built: Path, model: Path, key: str, value: object
) -> None:
    with pytest.raises(ValueError, match=f"index was built for encoder {key}"):
        open_retriever(built, DenseEncoder(model, changed(**{key: value})))


def test_an_index_of_another_model_is_refused(built: Path, tmp_path: Path) -> None:
    other = write_micro_encoder(tmp_path / "other", WORDS, seed=1)
    with pytest.raises(ValueError, match="index was built for encoder model"):
        open_retriever(built, DenseEncoder(other, SETTINGS))


def copy_index(built: Path, target: Path) -> Path:
    (target / "corpus").symlink_to(built / "corpus")
    (target / "index").mkdir()
    for path in (built / "index").iterdir():
        (target / "index" / path.name).write_bytes(path.read_bytes())
    return target / "index"


def test_a_damaged_index_is_refused(built: Path, encoder: DenseEncoder, tmp_path: Path) -> None:
    path = copy_index(built, tmp_path) / "index.faiss"
    content = path.read_bytes()
    path.write_bytes(content[:-128])
    with pytest.raises(ValueError, match=r"index\.faiss: \d+ bytes, manifest says \d+"):
        open_retriever(tmp_path, encoder)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"index\.faiss: sha256"):
        open_retriever(tmp_path, encoder)
    (tmp_path / "index" / "manifest.json").unlink()
    with pytest.raises(ValueError, match="no finished index"):
        open_retriever(tmp_path, encoder)


def test_passages_that_do_not_find_themselves_are_noticed(
    built: Path, encoder: DenseEncoder, tmp_path: Path
) -> None:
    """Vectors in the wrong order under a manifest that says all is well."""
    index_folder = copy_index(built, tmp_path)
    vectors = np.concatenate([np.load(p) for p in sorted((built / "vectors").glob("*.npy"))])
    index = faiss.IndexFlatIP(32)
    index.add(vectors[::-1].copy())
    faiss.write_index(index, str(index_folder / "index.faiss"))
    manifest = json.loads((index_folder / "manifest.json").read_text())
    manifest["files"][0]["sha256"] = hashlib.sha256(
        (index_folder / "index.faiss").read_bytes()
    ).hexdigest()
    (index_folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"only 0\.0% of 10 passages find themselves"):
        open_retriever(tmp_path, encoder)
    assert open_retriever(tmp_path, encoder, self_check_floor=0.0).self_check_rate == 0.0
