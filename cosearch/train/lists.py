"""The Fixed Ranker's training lists (Appendix), queries with D_N: how they are made and read."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import polars as pl

from cosearch.core.protocols import Engine
from cosearch.core.relevance import RelevanceRule
from cosearch.core.seeds import derive
from cosearch.core.types import Candidate, Question
from cosearch.data.assemble import read_questions
from cosearch.data.corpus import Corpus
from cosearch.data.index import open_collection, open_corpus
from cosearch.data.lists import read_list_sources
from cosearch.files.artifacts import LISTS_SCHEMA, read_frame, write_frame, write_json
from cosearch.params import blocks
from cosearch.rollouts.rank_list import RankingList, answerable, retrieve_lists
from cosearch.run.stage import Stage

BLOCK = 8192
"""How many queries have their candidates in memory at one time; with 50 candidates each, about
0.5 GB. Queries are encoded in batches of their block, so another value can change the last bits of
a score."""


def make_lists(stage: Stage, target: Path) -> None:
    """Write the Fixed Ranker's lists: queries that have an answer in D_N, in a seeded order over
    all sources, as many as ``fixed_ranker.lists`` asks for. Without sources in the data's
    parameters, the queries are the training questions."""
    block = stage.settings.section(blocks.FixedRanker)
    sources = read_list_sources(stage.paths)
    shared = [name for name, own in sources.items() if not own]
    counts, frames = [], []
    if shared or not sources:
        pool = [
            question
            for split in ([f"lists/{name}" for name in shared] or ["train"])
            for question in read_questions(stage.paths, split)
        ]
        counts.append(len(pool))
        frames += _searched(stage, pool, open_corpus(stage.settings, stage.paths)[1])
    for name in (name for name, own in sources.items() if own):
        pool = read_questions(stage.paths, f"lists/{name}")
        counts.append(len(pool))
        frames += _of_collection(stage, name, pool)
    kept = pl.concat(frames).sort("order", maintain_order=True).drop("order").head(block.lists)
    write_frame(target / "lists.parquet", kept.rechunk(), LISTS_SCHEMA)
    found = {"queries": sum(counts), "answerable": len(kept), "wanted": block.lists}
    write_json(target / "metrics.json", found)


class Lists(Sequence[RankingList]):
    """The lists of a file. The candidates of an entry are made when the entry is read: they are
    passages of the data set's own collection, or else of ``corpus``. Raises ValueError for a
    passage that its corpus does not have."""

    def __init__(self, path: Path, corpus: Corpus, collections: Mapping[str, Corpus]) -> None:
        self._frame = frame = read_frame(path, LISTS_SCHEMA)
        corpora: dict[str | None, Corpus] = {None: corpus}
        corpora |= {name: own for name, own in collections.items()}
        self._corpora = corpora
        ids, lengths = frame["candidate_ids"].explode(), frame["candidate_ids"].list.len()
        own = np.array([name if name in corpora else None for name in frame["dataset"]], object)
        owners = np.repeat(own, lengths.to_numpy())
        self._positions = np.empty(len(ids), np.int64)
        for name, corpus in corpora.items():
            here = owners == name
            self._positions[here] = corpus.positions(ids.filter(pl.Series(here)).to_list())
        if len(missing := np.flatnonzero(self._positions < 0)):
            lost = ids[int(missing[0])]
            raise ValueError(f"{path}: passage {lost} is not in this corpus; rebuild the lists")
        self._ends = np.cumsum(lengths.to_numpy(), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._frame)

    @overload
    def __getitem__(self, index: int) -> RankingList: ...
    @overload
    def __getitem__(self, index: slice) -> list[RankingList]: ...
    def __getitem__(self, index: int | slice) -> RankingList | list[RankingList]:
        """The entry at ``index``, or the entries of a slice."""
        if isinstance(index, slice):
            return [self._entry(place) for place in range(len(self))[index]]
        return self._entry(range(len(self))[index])

    def _entry(self, place: int) -> RankingList:
        row: dict[str, Any] = self._frame.row(place, named=True)
        name = row["dataset"]
        corpus = self._corpora[name if name in self._corpora else None]
        question = Question(row["question_id"], name, row["question"], tuple(row["golds"]))
        stop = int(self._ends[place])
        positions = self._positions[stop - len(row["scores"]) : stop].tolist()
        pairs = zip(map(corpus.passage, positions), row["scores"], strict=True)
        return RankingList(question, tuple(Candidate(*pair) for pair in pairs))


def _of_collection(stage: Stage, name: str, pool: Sequence[Question]) -> list[pl.DataFrame]:
    """Lists over a collection of their own. Its vectors are kept, because encoding takes hours; the
    index is removed, because it is made from them in minutes."""
    work = stage.paths.run("fixed_ranker_data", f"collection_{name}")
    corpus = Corpus(stage.paths.collection(name))

    def show(what: str, done: int, total: int) -> None:
        stage.progress.show(f"{stage.title} {name}", done, total, what)

    frames = _searched(stage, pool, open_collection(stage.settings, corpus, work, show))
    shutil.rmtree(work / "index")
    return frames


def _searched(stage: Stage, pool: Sequence[Question], retriever: Engine) -> list[pl.DataFrame]:
    """The answerable lists of a pool in blocks, with their place in the seeded order."""
    method, block = stage.settings.method(), stage.settings.section(blocks.FixedRanker)
    relevance = RelevanceRule(**method.relevance.model_dump())
    order = [(derive(block.seed, "lists", q.dataset, q.id), q) for q in pool]
    order.sort(key=lambda pair: pair[0])
    frames = []
    for start in range(0, len(order), BLOCK):
        places = {q: place for place, q in order[start : start + BLOCK]}
        lists = retrieve_lists(list(places), retriever, method.rollout.top_n)
        kept = answerable(lists, relevance)
        ranks = pl.Series("order", [places[entry.question] for entry in kept], pl.Int64)
        frames.append(_lists_frame(kept).with_columns(ranks))
        stage.progress.show(stage.title, start + len(places), len(order), "queries")
    return frames


def _lists_frame(lists: Sequence[RankingList]) -> pl.DataFrame:
    rows = [
        (
            entry.question.dataset,
            entry.question.id,
            entry.question.text,
            entry.question.golds,
            [candidate.passage.id for candidate in entry.candidates],
            [candidate.score for candidate in entry.candidates],
        )
        for entry in lists
    ]
    return pl.DataFrame(rows, schema=LISTS_SCHEMA, orient="row")
