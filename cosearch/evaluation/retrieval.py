"""How good the fixed retriever is, beside BM25 (a row the paper does not print; labels of Eq. 5).

``hit@k`` is answer recall: the share of questions with an answer-bearing passage in the first k.
``ndcg@k`` takes its ideal from the answer-bearing passages that any compared system found, so it
compares systems within one table only. Questions that no passage can answer (yes/no) are left out.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import bm25s
import ir_measures
import numpy as np
import polars as pl
import Stemmer

from cosearch.core.protocols import Retrieve
from cosearch.core.relevance import RelevanceRule
from cosearch.core.types import Candidate, Question
from cosearch.data.corpus import Corpus

BM25 = {"method": "lucene", "k1": 0.9, "b": 0.4}
"""Anserini's defaults for passages, as used in the reference run of the mini data."""

TABLE_SCHEMA = pl.Schema(
    {
        "dataset": pl.String,
        "system": pl.String,
        "metric": pl.String,
        "value": pl.Float64,
        "rows": pl.Int64,  # questions the value is a mean of
    }
)

CORPUS = "(corpus)"
"""In place of a data set: the passages themselves."""

RankedList = Sequence[Candidate]
RetrievalRow = tuple[str, str, str, float, int]


def dense_rankings(
    retriever: Callable[[Sequence[Retrieve]], Sequence[RankedList]],
    questions: Sequence[Question],
    *,
    top_n: int,
    batch_size: int,
) -> list[RankedList]:
    """Rankings of the retriever for every question, the question as query, in batches."""
    rankings: list[RankedList] = []
    for start in range(0, len(questions), batch_size):
        batch = questions[start : start + batch_size]
        rankings.extend(retriever([Retrieve(question.text, top_n) for question in batch]))
    return rankings


def bm25_rankings(corpus: Corpus, questions: Sequence[Question], *, top_n: int) -> list[RankedList]:
    """Rankings of BM25 over title and text, English stop words and stemmer.

    It holds the tokenised corpus in memory, so it is for a few million passages at most.
    """
    stemmer = Stemmer.Stemmer("english")
    texts = [f"{p.title} {p.text}" for part in corpus.slices(8192) for p in part]
    tokens = bm25s.tokenize(texts, stopwords="english", stemmer=stemmer, show_progress=False)
    index = bm25s.BM25(**BM25)
    index.index(tokens, show_progress=False)
    queries = bm25s.tokenize(
        [question.text for question in questions],
        stopwords="english",
        stemmer=stemmer,
        return_ids=False,
        show_progress=False,
    )
    found, scores = index.retrieve(queries, k=min(top_n, len(corpus)), show_progress=False)
    order = np.lexsort((found, -scores), axis=1)  # by score, then position
    rows = zip(order, found, scores, strict=True)
    return [
        [Candidate(corpus.passage(int(positions[i])), float(scores[i])) for i in ranks]
        for ranks, positions, scores in rows
    ]


def reference_rankings(
    path: str | Path, corpus: Corpus, questions: Sequence[Question]
) -> list[RankedList]:
    """Rankings of a published run: a TSV with dataset, question_id, rank, passage_id, score.

    Raises ValueError for a question the run lacks or a passage the corpus lacks.
    """
    names = {"dataset": pl.String, "question_id": pl.String, "passage_id": pl.String}
    try:
        run = pl.read_csv(path, separator="\t", schema_overrides=names).sort("rank")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"{path}: not a run ({error})") from error
    ids = run["passage_id"].to_list()
    positions = corpus.positions(ids).tolist()
    if -1 in positions:
        raise ValueError(f"{path}: passage {ids[positions.index(-1)]!r} is not in the corpus")
    ranked: dict[tuple[str, str], list[tuple[int, float]]] = {}
    columns = (run["dataset"], run["question_id"], positions, run["score"])
    for dataset, id_, position, score in zip(*columns, strict=True):
        ranked.setdefault((dataset, id_), []).append((position, score))
    missing = [q.id for q in questions if (q.dataset, q.id) not in ranked]
    if missing:
        raise ValueError(f"{path}: no ranking for question {missing[0]!r} ({len(missing)} missing)")
    return [
        [Candidate(corpus.passage(p), score) for p, score in ranked[question.dataset, question.id]]
        for question in questions
    ]


def measure_rankings(
    questions: Sequence[Question],
    rankings: Mapping[str, Sequence[RankedList]],
    rule: RelevanceRule,
    corpus: Corpus,
    *,
    cutoffs: Sequence[int],
) -> pl.DataFrame:
    """Tidy table (``TABLE_SCHEMA``) per data set and system.

    ``rankings`` maps a system's name to one ranking per question. Metrics per cut-off: ``hit``,
    ``ndcg``, and where the data names its evidence ``support_recall`` (mean share of it found) and
    ``support_all`` (share of questions with all of it).
    """
    for system, given in rankings.items():
        if len(given) != len(questions):
            raise ValueError(f"{system}: {len(given)} rankings for {len(questions)} questions")
    rows: list[RetrievalRow] = []
    for dataset in dict.fromkeys(question.dataset for question in questions):
        chosen = [n for n, question in enumerate(questions) if question.dataset == dataset]
        subset = [questions[n] for n in chosen]
        ranked = {system: [ranking[n] for n in chosen] for system, ranking in rankings.items()}
        rows += _answer_rows(dataset, subset, ranked, rule, cutoffs)
        rows += _support_rows(dataset, subset, ranked, corpus, cutoffs)
    return pl.DataFrame(rows, schema=TABLE_SCHEMA, orient="row")


def cut_rows(
    system: str,
    questions: Sequence[Question],
    cut_queries: Collection[str],
    passages: int,
    cut: int,
) -> pl.DataFrame:
    """Share of texts that the encoder of ``system`` did not read to their end, under
    ``TABLE_SCHEMA``: of the questions of each data set, and ``cut`` of all ``passages``."""
    rows: list[RetrievalRow] = [(CORPUS, system, "cut", cut / passages, passages)]
    for dataset in dict.fromkeys(question.dataset for question in questions):
        asked = [
            question.text in cut_queries for question in questions if question.dataset == dataset
        ]
        rows.append((dataset, system, "cut", fmean(asked), len(asked)))
    return pl.DataFrame(rows, schema=TABLE_SCHEMA, orient="row")


def _answer_rows(
    dataset: str,
    questions: Sequence[Question],
    rankings: Mapping[str, Sequence[RankedList]],
    rule: RelevanceRule,
    cutoffs: Sequence[int],
) -> Iterable[RetrievalRow]:
    able = [n for n, question in enumerate(questions) if rule.matchable(question.golds)]
    if not able:
        return
    qrels: dict[str, dict[str, int]] = {}
    for n in able:
        pool = {c.passage.id: c for ranked in rankings.values() for c in ranked[n]}
        labels = rule.label(questions[n], list(pool.values()))
        qrels[str(n)] = dict(zip(pool, map(int, labels), strict=True))
    measures = {f"hit@{k}": ir_measures.Success @ k for k in cutoffs}
    measures |= {f"ndcg@{k}": ir_measures.nDCG @ k for k in cutoffs}
    for system, ranked in rankings.items():
        run = {str(n): _by_rank(ranked[n]) for n in able}
        values = ir_measures.calc_aggregate(measures.values(), qrels, run)
        for name, measure in measures.items():
            yield dataset, system, name, float(values[measure]), len(able)


def _by_rank(ranking: RankedList) -> dict[str, float]:
    # trec_eval re-sorts by score and breaks ties by id; falling scores keep our order.
    return {candidate.passage.id: -float(rank) for rank, candidate in enumerate(ranking)}


def _support_rows(
    dataset: str,
    questions: Sequence[Question],
    rankings: Mapping[str, Sequence[RankedList]],
    corpus: Corpus,
    cutoffs: Sequence[int],
) -> Iterable[RetrievalRow]:
    able = [n for n, question in enumerate(questions) if question.supporting]
    if not able:
        return
    name_of = _evidence_name(corpus, [questions[n] for n in able])
    for system, ranked in rankings.items():
        for k in cutoffs:
            shares = [_share(questions[n].supporting, ranked[n][:k], name_of) for n in able]
            yield dataset, system, f"support_recall@{k}", fmean(shares), len(able)
            complete = fmean(float(share == 1.0) for share in shares)
            yield dataset, system, f"support_all@{k}", complete, len(able)


def _share(supporting: Sequence[str], ranking: RankedList, name_of: Callable[[Any], str]) -> float:
    found = {name_of(candidate.passage) for candidate in ranking}
    return len(found.intersection(supporting)) / len(set(supporting))


def _evidence_name(corpus: Corpus, questions: Sequence[Question]) -> Callable[[Any], str]:
    """What names evidence: a passage's id if all names are ids of the corpus, else its title."""
    names = [name for question in questions for name in question.supporting]
    if (corpus.positions(names) >= 0).all():
        return lambda passage: str(passage.id)
    return lambda passage: str(passage.title)
