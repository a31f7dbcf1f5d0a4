"""Queries of the Fixed Ranker's lists: sampling by hash order, judgements, and faulty files."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cosearch.core.types import Candidate
from cosearch.data.assemble import read_questions
from cosearch.data.corpus import Corpus
from cosearch.data.lists import read_qrels, write_lists
from cosearch.files.artifacts import Paths
from cosearch.params.blocks import Data
from cosearch.params.data import ListSource
from tests.core.builders import preset

BEIR: dict[str, Any] = {
    "path": "beir/queries.jsonl", "source": "self-made", "format": None, "queries": 3,
    "collection": "beir/corpus.jsonl", "qrels": "beir/qrels.tsv",
}  # fmt: skip
ANSWERED: dict[str, Any] = {
    "path": "nq.jsonl", "source": "self-made", "format": "flashrag", "queries": 4,
    "collection": None, "qrels": None,
}  # fmt: skip
TEXTS = (
    "A kiln is a furnace for clay.",
    "The tide turns twice a day.",
    "A KILN  is a\nfurnace for clay.",  # the first one's tokens
    "Furnace for clay.",
    "Lock gates hold the water back, and a kiln does not.",
    "The tide turns twice a day.",  # the second one again: dropped from the corpus
)
JUDGED = {"q0": ["p0"], "q1": ["p5", "p1"], "q2": ["p4"]}


def rows(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")


def put_files(folder: Path) -> None:
    """A collection of six passages with three judged queries among five, and ten questions."""
    passages = ({"_id": f"p{n}", "title": "", "text": text} for n, text in enumerate(TEXTS))
    rows(folder / "beir/corpus.jsonl", passages)
    queries = ({"_id": f"q{n}", "text": f" what is {n}? "} for n in range(5))
    rows(folder / "beir/queries.jsonl", queries)
    lines = [f"{query}\t{passage}\t1" for query in JUDGED for passage in JUDGED[query]]
    header = "query-id\tcorpus-id\tscore"
    (folder / "beir/qrels.tsv").write_text("\n".join([header, *lines, "q3\tp3\t0", ""]), "utf-8")
    questions = (
        {"id": f"train_{n}", "question": f"who is {n}?", "golden_answers": [f"answer {n}"]}
        for n in range(10)
    )
    rows(folder / "nq.jsonl", questions)


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Paths below an empty folder with the published files in ``files``."""
    put_files(tmp_path / "files")
    monkeypatch.chdir(tmp_path)
    return Paths("own")


def write(paths: Paths, sources: Mapping[str, Mapping[str, Any]], seed: int = 8) -> dict[str, Any]:
    lists = {name: ListSource(**row) for name, row in sources.items()}
    data = Data(
        source="files", folder=None, corpus=None, reference_run=None, seed=seed,
        eval_fraction=1.0, sets={}, lists=lists,
    )  # fmt: skip
    return write_lists(data, Path("files"), paths)


def test_the_sample_depends_on_the_seed_and_not_on_the_order_of_the_file(paths: Paths) -> None:
    def sampled(seed: int) -> set[str]:
        write(paths, {"nq": ANSWERED}, seed)
        return {question.id for question in read_questions(paths, "lists/nq")}

    first = sampled(8)
    assert len(first) == 4
    file = Path("files/nq.jsonl")
    file.write_text("".join(reversed(file.read_text("utf-8").splitlines(keepends=True))), "utf-8")
    assert sampled(8) == first
    assert sampled(9) != first


def test_a_larger_sample_holds_every_smaller_one(paths: Paths) -> None:
    found = []
    for queries in (2, 5, 99):
        write(paths, {"nq": ANSWERED | {"queries": queries}})
        found.append({question.id for question in read_questions(paths, "lists/nq")})
    assert found[0] < found[1] < found[2]
    assert [len(ids) for ids in found] == [2, 5, 10]


def test_the_manifest_tells_each_source(paths: Paths) -> None:
    found = write(paths, {"nq": ANSWERED, "beir": BEIR})
    assert [row["rows"] for row in found.values()] == [4, 3]
    assert found["nq"]["collection"] is None
    assert found["beir"]["collection"] == Corpus(paths.collection("beir")).manifest
    assert set(found["beir"]["sha256"]) == {BEIR["path"], BEIR["collection"], BEIR["qrels"]}


def test_golds_of_a_judged_query_are_its_passages(paths: Paths) -> None:
    write(paths, {"beir": BEIR})
    questions = {question.id: question for question in read_questions(paths, "lists/beir")}
    assert {id_: question.supporting for id_, question in questions.items()} == {
        id_: tuple(passages) for id_, passages in JUDGED.items()
    }
    assert questions["q0"].text == "what is 0?"
    assert questions["q1"].golds == (TEXTS[1],)  # named by two ids, one of a dropped double
    assert {question.dataset for question in questions.values()} == {"beir"}


def test_the_rule_of_answers_labels_what_was_judged(paths: Paths) -> None:
    """The collection also has a passage with the same tokens that has no judgement."""
    write(paths, {"beir": BEIR})
    corpus, rule = Corpus(paths.collection("beir")), preset("paper").relevance
    assert rule.match == "tokens"
    candidates = [Candidate(passage, 0.0) for passage in corpus.passages(0, len(corpus))]
    for question in read_questions(paths, "lists/beir"):
        labels = rule.label(question, candidates)
        relevant = {c.passage.id for c, label in zip(candidates, labels, strict=True) if label}
        same = {"p2"} if question.id == "q0" else set()
        assert relevant == (set(JUDGED[question.id]) - {"p5"}) | same


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("qrels.tsv", "p4", "p9", "query q2 names passage p9"),
        ("qrels.tsv", "q2\tp4\t1", "q2\tp4\tyes", "line 5: not a judgement"),
        ("qrels.tsv", "q2\tp4\t1", "q2\tp4", "line 5: not a judgement"),
        ("qrels.tsv", "corpus-id", "passage", "line 2: not a judgement"),
        ("qrels.tsv", "\t1", "\t0", "no passage is relevant"),
        ("queries.jsonl", '"q2"', '"q9"', "no query q2, which the qrels name"),
        ("queries.jsonl", '"q4"', '"q2"', "row 5: query q2 is blank, or there twice"),
        ("queries.jsonl", " what is 2? ", " ", "row 3: query q2 is blank"),
        ("queries.jsonl", "text", "query", "row 1: not a query"),
        ("corpus.jsonl", TEXTS[3], "", "row 4"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(
    paths: Paths, file: str, old: str, new: str, said: str
) -> None:
    path = Path("files/beir") / file
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(ValueError, match=said) as caught:
        write(paths, {"beir": BEIR})
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_missing_judgements_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.tsv: no such file"):
        read_qrels(tmp_path / "none.tsv")


@pytest.mark.parametrize(
    "change", [{"qrels": None}, {"collection": None}, {"format": "flashrag"}, {"queries": 0}]
)
def test_a_source_is_whole_or_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ListSource(**BEIR | change)
