"""How good the fixed retriever is: its rankings beside BM25's, per data set."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from cosearch.core.relevance import RelevanceRule
from cosearch.core.types import Candidate
from cosearch.data.assemble import read_questions
from cosearch.data.index import open_corpus
from cosearch.evaluation.retrieval import (
    bm25_rankings,
    cut_rows,
    dense_rankings,
    measure_rankings,
    reference_rankings,
)
from cosearch.files.artifacts import write_frame, write_json
from cosearch.params import blocks
from cosearch.run.stage import Stage

BATCH = 512
"""Queries per search."""


def measure_retriever(stage: Stage, target: Path) -> None:
    """Write retrieval.csv (tidy) and metrics.json over all questions of the evaluated split."""
    block, data = stage.settings.section(blocks.Evaluate), stage.settings.section(blocks.Data)
    relevance = RelevanceRule(**stage.settings.method().relevance.model_dump())
    questions = read_questions(stage.paths, block.split)
    corpus, retriever = open_corpus(stage.settings, stage.paths)
    top_n = min(max(block.recall_cutoffs), len(corpus))
    rankings: dict[str, Sequence[Sequence[Candidate]]] = {}
    with stage.phase("dense"):
        rankings["dense"] = dense_rankings(retriever, questions, top_n=top_n, batch_size=BATCH)
    if block.bm25:
        with stage.phase("bm25"):
            rankings["bm25"] = bm25_rankings(corpus, questions, top_n=top_n)
    if data.reference_run is not None:
        folder = Path(os.environ.get("COSEARCH_DATA") or data.folder or ".")
        rankings["bm25 (reference)"] = reference_rankings(
            folder / data.reference_run, corpus, questions
        )
    table = measure_rankings(questions, rankings, relevance, corpus, cutoffs=block.recall_cutoffs)
    cut = frozenset(retriever.cut_queries([question.text for question in questions]))
    passages = retriever.manifest["cut_passages"]
    table = pl.concat([table, cut_rows("dense", questions, cut, len(corpus), passages)])
    write_frame(target / "retrieval.csv", table)
    write_json(target / "metrics.json", _nested(table))


def _nested(table: pl.DataFrame) -> Mapping[str, Any]:
    """System -> data set -> metric -> value, rounded."""
    nested: dict[str, Any] = {}
    for row in table.iter_rows(named=True):
        place = nested.setdefault(row["system"], {}).setdefault(row["dataset"], {})
        place[row["metric"]] = round(row["value"], 6)
    return nested
