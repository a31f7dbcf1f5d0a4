"""What the retriever found is kept with a run's state.

A retriever encodes only queries that are new to it. So the queries that it answered before decide
which new ones share a batch, and the batch decides the last bits of their scores. A resumed run
reads the earlier queries back, and searches in the same batches as a run that was never stopped.
"""

from collections.abc import Sequence
from typing import Any

from cosearch.core.protocols import Engine, Retrieve
from cosearch.core.types import Candidate
from cosearch.data.corpus import PassageLookup


class Remembering:
    """The engine ``retriever``. It answers from the entries that ``put`` gave it, where it can.

    Implements ``shards.EngineMemory``; an entry holds query, n, passage ids and scores.
    """

    def __init__(self, retriever: Engine, passages: PassageLookup) -> None:
        self._retriever, self._passages = retriever, passages
        self._met: set[tuple[str, int]] = set()
        self._back: dict[tuple[str, int], list[tuple[int, float]]] = {}
        self._new: list[list[Any]] = []

    def __call__(self, requests: Sequence[Retrieve]) -> list[Sequence[Candidate]]:
        """Candidates of each request, in order."""
        unknown = [request for request in requests if _key(request) not in self._back]
        found = self._retriever(unknown) if unknown else []
        fresh = dict(zip(map(_key, unknown), found, strict=True))
        self._remember(fresh)
        return [
            fresh[_key(request)] if _key(request) in fresh else self._recall(_key(request))
            for request in requests
        ]

    def take(self) -> list[Any]:
        """What was found since the last ``take``."""
        taken, self._new = self._new, []
        return taken

    def put(self, entries: Sequence[Any]) -> None:
        """Answer the queries of ``entries`` from these from now on. Raises ValueError for a passage
        that the corpus does not have."""
        ids = sorted({name for _, _, names, _ in entries for name in names})
        places = dict(zip(ids, self._passages.positions(ids).tolist(), strict=True)) if ids else {}
        if missing := [name for name, place in places.items() if place < 0]:
            raise ValueError(f"a kept search found passage {missing[0]!r}, the corpus has none")
        for query, n, names, scores in entries:
            found = [(places[name], score) for name, score in zip(names, scores, strict=True)]
            self._back[query, n] = found

    def _remember(self, fresh: dict[tuple[str, int], Sequence[Candidate]]) -> None:
        for key, candidates in fresh.items():
            if key not in self._met:
                self._met.add(key)
                ids = [candidate.passage.id for candidate in candidates]
                self._new.append([*key, ids, [candidate.score for candidate in candidates]])

    def _recall(self, key: tuple[str, int]) -> list[Candidate]:
        return [Candidate(self._passages.passage(p), score) for p, score in self._back[key]]


def _key(request: Retrieve) -> tuple[str, int]:
    return request.query, request.n
