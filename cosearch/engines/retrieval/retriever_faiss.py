"""The fixed dense retriever: inner-product search over an index of all passages (Section 4.1).

Opening an index checks that its manifest names this corpus, this encoder and these settings, and
that passages find themselves. An index of another corpus would answer every query, with worse
passages and without an error.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cosearch.core.protocols import Retrieve
from cosearch.core.types import Candidate, Passage
from cosearch.engines.retrieval.index_faiss import (
    open_index,
    read_manifest,
    same_vectors,
    set_up_faiss,
)
from cosearch.engines.retrieval.index_kinds import IndexRecipe
from cosearch.engines.retrieval.index_need import Room, check_room, index_need
from cosearch.files.hashes import known_hash
from cosearch.params.blocks import Index

ROUNDING = 1e-5
"""Relative difference of two scores below which their vectors may be equal; then they are compared.
The rounding of a float32 product of a thousand terms stays below it."""


class PassageStore(Protocol):
    """What the retriever needs of a corpus; ``data.corpus.Corpus`` is one."""

    @property
    def sha256(self) -> str:
        """Hash of the rows in order."""

    def __len__(self) -> int: ...

    def passage(self, position: int) -> Passage:
        """The passage at ``position``."""


class TextEncoder(Protocol):
    """What the retriever needs of an encoder; ``engines.retrieval.encoder.DenseEncoder`` is one."""

    fingerprint: dict[str, Any]

    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        """``[n, dimension]`` float32."""

    def encode_passages(self, passages: Sequence[Passage]) -> np.ndarray:
        """``[n, dimension]`` float32."""


class FaissRetriever:
    """The engine behind ``Retrieve``: encodes and searches all new queries of a batch at once.

    Results are cached per query for the life of the object. Candidates are ordered by score, then
    by position. Fewer than ``n`` candidates come back when the corpus is smaller, or when the lists
    that an ivf kind visits hold fewer. ``settings.self_check`` passages spread over the corpus are
    encoded anew and must rank first for themselves at a rate of at least the floor of their kind.
    Without ``settings.gpus`` the index is searched on the CPU with ``settings.threads`` threads,
    and must fit in ``room``. Raises ValueError when index, settings, corpus and encoder do not
    belong together.
    """

    def __init__(
        self,
        folder: str | Path,
        corpus: PassageStore,
        encoder: TextEncoder,
        settings: Index,
        *,
        room: Room,
    ) -> None:
        folder, recipe = Path(folder), IndexRecipe.of(settings)
        self.manifest = read_manifest(folder, "no finished index")
        _check_bindings(folder, self.manifest, corpus, encoder, recipe)
        if settings.gpus is None:
            shape = {name: self.manifest[name] for name in ("rows", "dimension", "shard_rows")}
            need = index_need(recipe, **shape)
            recall = {str(kind): share for kind, share in settings.recall.items()}
            check_room(need, room, phase="serve", recall=recall, **shape)
        _check_files(folder, self.manifest)
        set_up_faiss(settings.threads)
        self._index = open_index(folder, self.manifest, settings.gpus)
        self._corpus, self._encoder = corpus, encoder
        self._found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        floor = settings.self_check_floor[settings.kind]
        self.self_check_rate = self._check_self_retrieval(folder, settings.self_check, floor)

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
        scores, positions = _in_order(*self._index.search(vectors, n))
        if self._equal_scores(scores, positions):
            return _in_order(scores, positions)
        return scores, positions

    def _equal_scores(self, scores: np.ndarray, positions: np.ndarray) -> bool:
        """Give neighbours with equal vectors equal scores, in place; whether there were any.

        On some processors a matrix product rounds equal products apart, by their place in it.
        """
        close = scores[:, :-1] - scores[:, 1:] <= ROUNDING * np.abs(scores[:, :-1])
        found = False
        for row, left in np.argwhere(close & (positions[:, 1:] >= 0)):
            pair = [int(position) for position in positions[row, left : left + 2]]
            if scores[row, left] != scores[row, left + 1] and same_vectors(self._index, *pair):
                scores[row, left + 1] = scores[row, left]
                found = True
        return found

    def _candidates(self, request: Retrieve) -> list[Candidate]:
        width = self._width(request)
        if not width:
            return []
        scores, positions = (found[:width] for found in self._found[request.query])
        return [
            Candidate(self._corpus.passage(int(position)), float(score))
            for score, position in zip(scores, positions, strict=True)
            if position >= 0  # FAISS fills up with -1 where it visited too few
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


def _in_order(scores: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both [queries, n], in each row by falling score, then by position."""
    order = np.lexsort((positions, -scores), axis=1)
    return np.take_along_axis(scores, order, 1), np.take_along_axis(positions, order, 1)


def _check_bindings(
    folder: Path,
    manifest: Mapping[str, Any],
    corpus: PassageStore,
    encoder: TextEncoder,
    recipe: IndexRecipe,
) -> None:
    pairs = {
        "kind": (manifest["kind"], recipe.kind),
        "shards": (len(manifest["files"]), recipe.shards),
        **_pairs("parameter", manifest["parameters"], recipe.used()),
        "corpus": (manifest["corpus"], corpus.sha256),
        "rows": (manifest["rows"], len(corpus)),
        **_pairs("encoder", manifest["encoder"], encoder.fingerprint),
    }
    for name, (bound, given) in pairs.items():
        if bound != given:
            raise ValueError(f"{folder}: index was built for {name} {bound!r}, found {given!r}")


def _pairs(
    name: str, bound: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    keys = sorted(bound.keys() | given.keys())
    return {f"{name} {key}": (bound.get(key), given.get(key)) for key in keys}


def _check_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    for file in manifest["files"]:
        path = folder / file["file"]
        if not path.is_file():
            raise ValueError(f"{path}: no such file, the manifest names it")
        if (size := path.stat().st_size) != file["bytes"]:
            raise ValueError(f"{path}: {size} bytes, manifest says {file['bytes']}")
        if (actual := known_hash(path)) != file["sha256"]:
            raise ValueError(f"{path}: sha256 {actual}, manifest says {file['sha256']}")
