"""The Fixed Ranker: its training lists, its training, and the lists other checks use."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl

from cosearch import schema
from cosearch.artifacts import (
    LISTS_SCHEMA,
    move_folder,
    named,
    read_frame,
    read_json,
    write_frame,
    write_json,
)
from cosearch.core.protocols import Engine, Retrieve
from cosearch.core.relevance import RelevanceRule
from cosearch.core.seeds import derive
from cosearch.core.types import Candidate, Question
from cosearch.data.assemble import read_questions
from cosearch.data.corpus import Corpus
from cosearch.data.index import open_corpus
from cosearch.stage import Stage
from cosearch.train.pipelines import generative_ranker
from cosearch.train.policy import serving
from cosearch.train.single_turn import ListRules, RankingList, train_ranker
from cosearch.train.wiring import (
    Parts,
    engines_of,
    identity,
    open_learner,
    open_run,
)

RECORD = "fixed_ranker.json"
"""Says where the Fixed Ranker's model is."""


def retrieve_lists(
    questions: Sequence[Question], retriever: Engine, top_n: int
) -> list[RankingList]:
    """D_N of every question, with the question's own text as the query."""
    found = retriever([Retrieve(question.text, top_n) for question in questions])
    return [
        RankingList(question, tuple(candidates))
        for question, candidates in zip(questions, found, strict=True)
    ]


def answerable(lists: Sequence[RankingList], relevance: RelevanceRule) -> list[RankingList]:
    """Lists with a relevant candidate; nothing can be learned from the others (Appendix)."""
    return [entry for entry in lists if any(relevance.label(entry.question, entry.candidates))]


def make_lists(stage: Stage, target: Path) -> None:
    """Write the fixed ranker's lists: retrieval queries in seeded order that have an answer in
    D_N, as many as asked for."""
    parts, block = Parts.of(stage.settings, {}), stage.settings.section(schema.FixedRanker)
    _, retriever = open_corpus(stage.settings, stage.paths)
    pool = sorted(
        read_questions(stage.paths, "train"),
        key=lambda q: derive(block.seed, "lists", q.dataset, q.id),
    )
    retrieved = retrieve_lists(pool, retriever, parts.method.rollout.top_n)
    kept = answerable(retrieved, parts.credit().relevance)[: block.lists]
    write_frame(target / "lists.parquet", _lists_frame(kept), LISTS_SCHEMA)
    counts = {"queries": len(pool), "answerable": len(kept), "wanted": block.lists}
    write_json(target / "metrics.json", counts)


def read_lists(path: Path, corpus: Corpus) -> list[RankingList]:
    """Lists with their passages from the corpus."""
    frame = read_frame(path, LISTS_SCHEMA)
    ids = frame["candidate_ids"].explode().unique().sort().to_list()
    positions = dict(zip(ids, corpus.positions(ids).tolist(), strict=True))
    if missing := [name for name, position in positions.items() if position < 0]:
        raise ValueError(f"{path}: passage {missing[0]} is not in this corpus; rebuild the lists")
    return [_list(row, corpus, positions) for row in frame.iter_rows(named=True)]


def train_fixed_ranker(stage: Stage, seed: int, lists_path: Path, target: Path) -> None:
    """Train the Fixed Ranker on the lists and publish model, rollouts and metrics. In a run of
    zero rounds the base ranker stands in for it."""
    parts, block = Parts.of(stage.settings, {}), stage.settings.section(schema.FixedRanker)
    folder = parts.models.ranker
    if not block.rounds:
        write_json(target / RECORD, {"ranker": folder})
        return
    who = identity(parts, stage.paths, [folder], fixed_ranker=block.model_dump(), seed=seed)
    corpus, retriever = open_corpus(stage.settings, stage.paths)
    lists = read_lists(lists_path, corpus)
    with open_run(stage, who) as store, ExitStack() as stack:
        policy = open_learner(
            folder,
            parts.ranker,
            parts,
            temperature=parts.method.rollout.ranker_temperature,
            lr=block.lr,
            max_tokens=parts.ranker.max_turn_tokens,
            scratch=store.folder,
        )
        stack.enter_context(serving({"ranker": policy}))
        rules = list_rules(parts, block, len(lists), seed)
        train_ranker(
            rules=rules,
            credit=parts.credit(),
            lists=lists,
            stage=generative_ranker(parts.tools({"ranker": policy}, policy.temperature)),
            policy=policy,
            engines=engines_of(retriever, {"ranker": policy}, stage),
            store=store,
            report=lambda number, phase, metrics: _report(stage, rules, number, phase, metrics),
            phase=stage.phase,
        )
        aside = store.fresh("published")
        store.publish(aside, rules.rounds)
        with named(target / "ranker"):
            policy.export(aside / "ranker")
        record = {"accepted": store.accepted} if store.accepted else {}
        write_json(aside / RECORD, record | {"ranker": str(target / "ranker")})
        move_folder(aside, target)
        store.discard()


def read_fixed_ranker(target: Path) -> str:
    """Model folder of the Fixed Ranker."""
    folder: str = read_json(target / RECORD)["ranker"]
    return folder


def list_rules(parts: Parts, block: schema.FixedRanker, lists: int, seed: int) -> ListRules:
    """Sizes of the single-turn loop; a round never asks for more lists than there are."""
    group_size = parts.method.rollout.group_size
    return ListRules(
        rounds=block.rounds,
        lists=min(block.questions, lists),
        group_size=group_size,
        per_update=parts.train.update_questions * group_size,
        seed=seed,
    )


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


def _list(row: Mapping[str, Any], corpus: Corpus, positions: Mapping[str, int]) -> RankingList:
    question = Question(row["question_id"], row["dataset"], row["question"], tuple(row["golds"]))
    passages = (corpus.passage(positions[name]) for name in row["candidate_ids"])
    candidates = zip(passages, row["scores"], strict=True)
    return RankingList(question, tuple(Candidate(*pair) for pair in candidates))


def _report(
    stage: Stage, rules: ListRules, number: int, phase: str, metrics: Mapping[str, float]
) -> None:
    shown = ("r_rank", "hit_1", "ranker_well_formed")
    note = " ".join(f"{name}={metrics[name]:.3f}" for name in shown if name in metrics)
    stage.round(number + 1, metrics)
    stage.progress.show(stage.title, number + (phase == "done"), rules.rounds, note or phase)
