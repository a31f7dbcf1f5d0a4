"""The retrieval table against numbers worked out by hand, and BM25 against a published run."""

import math
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from cosearch.core.protocols import Retrieve
from cosearch.core.relevance import RelevanceRule
from cosearch.core.types import Candidate, Passage, Question
from cosearch.data.corpus import Corpus, write_corpus
from cosearch.data.passages import read_passages
from cosearch.data.questions import QuestionFile, load_questions
from cosearch.evaluation.retrieval import (
    CORPUS,
    TABLE_SCHEMA,
    bm25_rankings,
    cut_rows,
    dense_rankings,
    measure_rankings,
    reference_rankings,
)

REAL = Path(__file__).parents[3] / "shared" / "data"
RULE = RelevanceRule(match="tokens", strip_marks=False, min_gold_chars=0)
PASSAGES = [
    Passage("10", "Ferry", "Mira Oldham painted the ferry."),
    Passage("11", "Harbor", "Dun Harbor has a pier."),
    Passage("12", "Oldham", "Oldham was born in Dun Harbor."),
    Passage("13", "Venn", "Venn wrote a poem."),
]
QUESTIONS = [
    Question("a", "nq", "who painted the ferry", ("Mira Oldham",)),
    Question("b", "nq", "where was oldham born", ("Dun Harbor",)),
    Question("c", "nq", "is it a pier", ("yes",)),
    Question("d", "hotpotqa", "painter's birthplace", ("Dun Harbor",), ("Ferry", "Oldham")),
]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    write_corpus(PASSAGES, tmp_path / "corpus", source="made")
    return Corpus(tmp_path / "corpus")


def ranking(*numbers: int) -> list[Candidate]:
    """Passages by number with one score for all: the order alone counts."""
    return [Candidate(PASSAGES[number], 1.0) for number in numbers]


def cells(table: pl.DataFrame, dataset: str, system: str) -> dict[str, tuple[float, int]]:
    rows = table.filter(pl.col("dataset") == dataset, pl.col("system") == system)
    return {row["metric"]: (row["value"], row["rows"]) for row in rows.to_dicts()}


def test_values_worked_out_by_hand(corpus: Corpus) -> None:
    one = [ranking(3, 0), ranking(2, 3), ranking(0), ranking(0, 3, 2)]
    two = [ranking(0, 3), ranking(3, 1), ranking(0), ranking(3)]
    table = measure_rankings(QUESTIONS, {"one": one, "two": two}, RULE, corpus, cutoffs=(1, 2))
    assert table.schema == TABLE_SCHEMA
    # Question b: passages 11 and 12 hold the answer, each system found one of them.
    second, ideal = 1 / math.log2(3), 1 + 1 / math.log2(3)
    assert cells(table, "nq", "one") == {
        "hit@1": (pytest.approx(0.5), 2),
        "hit@2": (pytest.approx(1.0), 2),
        "ndcg@1": (pytest.approx(0.5), 2),
        "ndcg@2": (pytest.approx((second + 1 / ideal) / 2), 2),
    }
    assert cells(table, "nq", "two")["ndcg@2"][0] == pytest.approx((1 + second / ideal) / 2)
    support = cells(table, "hotpotqa", "one")
    assert support["support_recall@1"] == (0.5, 1)
    assert support["support_recall@2"] == (0.5, 1)
    assert support["support_all@2"] == (0.0, 1)
    assert cells(table, "hotpotqa", "two")["hit@2"] == (0.0, 1)


def test_evidence_is_named_by_id_or_by_title(corpus: Corpus) -> None:
    by_id = [Question("d", "x", "q", ("Dun Harbor",), ("10", "12"))]
    rankings = {"one": [ranking(0, 3, 2)]}
    values = cells(measure_rankings(by_id, rankings, RULE, corpus, cutoffs=(3,)), "x", "one")
    assert values["support_recall@3"] == (1.0, 1)
    assert values["support_all@3"] == (1.0, 1)


def test_sets_without_answerable_questions_or_evidence_have_no_rows(corpus: Corpus) -> None:
    table = measure_rankings(QUESTIONS[2:3], {"one": [ranking(0)]}, RULE, corpus, cutoffs=(1,))
    assert table.is_empty()
    with pytest.raises(ValueError, match="one: 1 rankings for 2 questions"):
        measure_rankings(QUESTIONS[:2], {"one": [ranking(0)]}, RULE, corpus, cutoffs=(1,))


def test_texts_that_the_encoder_cut_have_rows() -> None:
    table = cut_rows("dense", QUESTIONS, {QUESTIONS[0].text, QUESTIONS[2].text}, 4, 1)
    assert table.schema == TABLE_SCHEMA
    assert cells(table, CORPUS, "dense") == {"cut": (0.25, 4)}
    assert cells(table, "nq", "dense") == {"cut": (pytest.approx(2 / 3), 3)}
    assert cells(table, "hotpotqa", "dense") == {"cut": (0.0, 1)}


def test_bm25_finds_the_words_of_the_question(corpus: Corpus) -> None:
    found = bm25_rankings(corpus, QUESTIONS, top_n=50)
    assert [len(ranked) for ranked in found] == [4] * 4
    assert [ranked[0].passage.id for ranked in found[:2]] == ["10", "12"]
    assert [c.passage.id for c in found[0][1:]] == ["11", "12", "13"], "ties by position"


def test_dense_rankings_come_in_batches(corpus: Corpus) -> None:
    sizes: list[int] = []

    def retriever(requests: list[Retrieve]) -> list[list[Candidate]]:
        sizes.append(len(requests))
        return [ranking(len(request.query) % 4) for request in requests]

    found = dense_rankings(retriever, QUESTIONS, top_n=2, batch_size=3)  # type: ignore[arg-type]
    assert sizes == [3, 1]
    expected = [PASSAGES[len(question.text) % 4] for question in QUESTIONS]
    assert [ranked[0].passage for ranked in found] == expected


def test_a_reference_run_is_read_in_rank_order(corpus: Corpus, tmp_path: Path) -> None:
    path = tmp_path / "run.tsv"
    head = "dataset\tquestion_id\trank\tpassage_id\tscore\n"
    path.write_text(f"{head}nq\ta\t2\t13\t1.5\nnq\ta\t1\t10\t2.5\nnq\tb\t1\t12\t4\n", "utf-8")
    first, second = reference_rankings(path, corpus, QUESTIONS[:2])
    assert [(c.passage.id, c.score) for c in first] == [("10", 2.5), ("13", 1.5)]
    assert [c.passage.id for c in second] == ["12"]
    with pytest.raises(ValueError, match=r"run\.tsv: no ranking for question 'c' \(2 missing\)"):
        reference_rankings(path, corpus, QUESTIONS)
    path.write_text(f"{head}nq\ta\t1\t99\t2.5\n", "utf-8")
    with pytest.raises(ValueError, match="passage '99' is not in the corpus"):
        reference_rankings(path, corpus, QUESTIONS[:1])
    with pytest.raises(ValueError, match=r"nowhere\.tsv: not a run"):
        reference_rankings(tmp_path / "nowhere.tsv", corpus, QUESTIONS)


@pytest.mark.skipif(not REAL.is_dir(), reason="no real data beside the project")
def test_the_published_run_gives_the_published_numbers(tmp_path: Path) -> None:
    mini = REAL / "mini"
    write_corpus(read_passages(mini / "corpus.jsonl.gz"), tmp_path / "corpus", source="mini")
    corpus = Corpus(tmp_path / "corpus")
    questions = [
        question
        for name in ("bamboogle", "musique", "hotpotqa")
        for question in load_questions(
            QuestionFile(name, mini / "questions" / f"{name}.jsonl", None, "mini")
        ).questions
    ]
    run = reference_rankings(mini / "bm25_top50.tsv.gz", corpus, questions)
    table = measure_rankings(questions, {"reference": run}, RULE, corpus, cutoffs=(5, 50))
    percent: Callable[[str, str], float] = lambda dataset, metric: round(  # noqa: E731
        100 * cells(table, dataset, "reference")[metric][0], 1
    )
    assert (percent("bamboogle", "hit@5"), percent("bamboogle", "hit@50")) == (21.0, 46.8)
    # Published are 31.7: there a passage with the word "no" answers a question about Norway (NO).
    assert (percent("musique", "hit@5"), percent("musique", "hit@50")) == (31.3, 58.7)
    assert percent("musique", "support_recall@5") == 43.8
    assert percent("musique", "support_all@50") == 34.7
    assert percent("hotpotqa", "support_recall@50") == 91.5
