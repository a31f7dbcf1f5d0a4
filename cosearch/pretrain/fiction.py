"""Fictional encyclopaedias with a retriever. The base models are trained on them.

They share the words of the world on which the pipeline evaluates, but none of its facts.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

import torch

from cosearch.core.seeds import derive
from cosearch.core.types import Passage
from cosearch.data.world import Triple, draw_encyclopaedia
from cosearch.data.world_lexicon import LexiconSize
from cosearch.data.world_questions import Fact, Task, deal_tasks
from cosearch.data.world_relations import RELATIONS


class Vectors(Protocol):
    """An encoder for fictional encyclopaedias. Inner products of its unit rows are scores."""

    def queries(self, queries: Sequence[str]) -> torch.Tensor:
        """[len(queries), hidden]."""

    def passages(self, passages: Sequence[Passage]) -> torch.Tensor:
        """[len(passages), hidden]."""


@dataclass(frozen=True, slots=True)
class FictionSearch:
    """A sub-query for one hop, its candidates (best first), and the passage with the hop's fact."""

    fact: Fact
    query: str
    candidates: tuple[Passage, ...]
    gold: Passage


@dataclass(frozen=True, slots=True)
class FictionEpisode:
    """A task with the searches of each hop, one per wording of the sub-query.

    ``whole`` searches with the question itself. It is None if the task has several hops.
    """

    task: Task
    searches: tuple[tuple[FictionSearch, ...], ...]
    whole: FictionSearch | None


@torch.no_grad()
def draw_episodes(
    encoder: Vectors,
    seed: int,
    *,
    size: LexiconSize,
    rows: Mapping[str, int],
    top_n: int,
    avoid: AbstractSet[Triple],
) -> list[FictionEpisode]:
    """Episodes of a new encyclopaedia: ``rows`` tasks per family, ``top_n`` candidates per search.

    The encyclopaedia contains no fact of ``avoid``.
    """
    fiction = draw_encyclopaedia(size, seed, avoid=avoid)
    counts = {name: {"train": count} for name, count in rows.items()}
    dealt = deal_tasks(fiction.names, fiction.facts, counts, derive(seed, "questions"))
    tasks = [task for name in rows for task in dealt[name, "train"]]
    hops = list(dict.fromkeys(hop for task in tasks for hop in task.hops))
    queries = {hop: RELATIONS[hop.relation].queries(hop.subject) for hop in hops}
    whole = {task.question.text: task.hops[0] for task in tasks if len(task.hops) == 1}
    unique = sorted({query for wordings in queries.values() for query in wordings} | set(whole))
    scores = encoder.queries(unique) @ encoder.passages(fiction.passages).T
    nearest = dict(zip(unique, scores.topk(top_n).indices.tolist(), strict=True))
    by_id = {passage.id: passage for passage in fiction.passages}

    def search(hop: Fact, query: str) -> FictionSearch:
        found = tuple(fiction.passages[position] for position in nearest[query])
        return FictionSearch(hop, query, found, by_id[hop.passage])

    return [
        FictionEpisode(
            task,
            tuple(tuple(search(hop, query) for query in queries[hop]) for hop in task.hops),
            search(task.hops[0], task.question.text) if len(task.hops) == 1 else None,
        )
        for task in tasks
    ]
