"""Files as researchers have them: taken with the right golds, or refused in one line; and whatever
``init`` takes, the stage ``data`` takes."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict

from cosearch.__main__ import main
from cosearch.core.types import Question
from cosearch.data.assemble import assemble, read_questions
from cosearch.data.corpus import Corpus
from cosearch.data.own_files import assign_splits, check_corpus, check_questions
from cosearch.files.artifacts import Paths
from cosearch.params import blocks
from cosearch.params.settings import load_settings

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "data" / "samples" / "cases"
SPLITS = ("train", "dev", "test")
PASSAGES = CASES / "corpus_ok.jsonl"
ASKED = CASES / "questions_dpr_retrieval_result_answers_is_a_list.jsonl"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's parameters."""
    root = tmp_path / "project"
    (root / "models").mkdir(parents=True)
    for name in ("params.yaml", "plan.yaml", "hub.yaml", "dvc.yaml", "profile.yaml"):
        shutil.copyfile(ROOT / name, root / name)
    monkeypatch.chdir(root)
    return root


def make(questions: Path, corpus: Path) -> tuple[list[Question], Corpus]:
    """Run ``init`` and the work of the stage ``data``."""
    files = ("--questions", str(questions), "--corpus", str(corpus))
    main(["init", *files, "--name", "own", "--like", "tiny"])
    paths = Paths("own")
    assemble(load_settings("own").section(blocks.Data), Path(), paths)
    found = [question for split in SPLITS for question in read_questions(paths, split)]
    return found, Corpus(paths.corpus)


@pytest.mark.parametrize(
    ("name", "count", "golds"),
    [
        ("answer_is_an_object_triviaqa_hub_layout.jsonl", 12, ("River {}", "The {}")),
        ("dpr_retrieval_result_answers_is_a_list.jsonl", 12, ("River {}", "The river")),
        ("excel_bom.csv", 5, ("River {}",)),
        ("golden_answers_list_written_as_string.jsonl", 12, ("River {}", "The river")),
        ("gzip_bytes_under_the_name_jsonl.jsonl", 12, ("River {}",)),
        ("line_separator_and_next_line_inside_text.jsonl", 14, ("River {}",)),
        ("popqa_possible_answers_json_escaped_flags.jsonl", 12, ("France", "\U0001f1eb\U0001f1f7")),
        ("rows_name_their_split.jsonl", 12, ("River {}",)),
    ],
)
def test_questions_of_every_kind_keep_their_golds(
    project: Path, name: str, count: int, golds: tuple[str, ...]
) -> None:
    questions, _ = make(CASES / f"questions_{name}", PASSAGES)
    assert len(questions) == count
    for question in questions:
        number = re.search(r"Velm (\d+)\?", question.text)
        if number:
            assert question.golds == tuple(gold.format(number[1]) for gold in golds)


def test_signs_that_end_lines_elsewhere_stay_in_the_text(project: Path) -> None:
    path = CASES / "questions_line_separator_and_next_line_inside_text.jsonl"
    questions, _ = make(path, PASSAGES)
    asked = {question.text: question.golds for question in questions}
    assert asked["Which river\u2028flows through Velm?"] == ("River A",)
    assert asked["Who\x85leads Velm?"] == ("Ann\x1c Brook",)


def test_splits_and_ids_of_rows_are_kept(project: Path) -> None:
    make(CASES / "questions_rows_name_their_split.jsonl", PASSAGES)
    for split in SPLITS:
        ids = {question.id for question in read_questions(Paths("own"), split)}
        assert ids and all(id_.startswith(split) for id_ in ids)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("contents_empty_string_literals_in_text", ("0", 'set x = "" and y = "a""b" 0')),
        ("id_is_null", ("0", "Velm 0 lies at the river 0.")),
        ("ok", ("0", "Velm 0 lies at the river 0.")),
    ],
)
def test_passages_of_every_kind_keep_their_text(
    project: Path, name: str, first: tuple[str, str]
) -> None:
    _, corpus = make(ASKED, CASES / f"corpus_{name}.jsonl")
    passages = corpus.passages(0, 60)
    assert (passages[0].id, passages[0].text) == first
    assert len({passage.id for passage in passages}) == 60


def test_passages_with_signs_that_end_lines_elsewhere_are_taken() -> None:
    path = CASES / "lists_msmarco_passage_with_latin1_decoded_one_third.jsonl"
    assert len(check_corpus(path)) == 2


@pytest.mark.usefixtures("project")
def test_half_a_surrogate_pair_is_refused_by_file_and_row() -> None:
    path = CASES / "questions_lone_surrogate_escape.jsonl"
    with pytest.raises(SystemExit) as caught:
        make(path, PASSAGES)
    words = "1 of 13 rows: row 1: 'question' has half of a surrogate pair"
    assert str(caught.value).startswith(f"error: {path}: {words}")
    assert not Path("profiles/own").exists()


def test_folders_of_datasets_become_a_profile(project: Path, tmp_path: Path) -> None:
    """Their splits are kept under the names that are usual here."""
    rows = [{"question": f"Who {n}?", "answer": [f"writer {n}"], "id": n} for n in range(6)]
    whole = Dataset.from_list(rows)
    parts = {"train": [0, 1, 2], "validation": [3], "test": [4, 5]}
    named = {name: whole.select(chosen) for name, chosen in parts.items()}
    DatasetDict(named).save_to_disk(str(tmp_path / "asked"))
    corpus = [json.loads(line) for line in PASSAGES.read_text("utf-8").split("\n") if line]
    Dataset.from_list(corpus).save_to_disk(str(tmp_path / "corpus"))
    questions, found = make(tmp_path / "asked", tmp_path / "corpus")
    assert [(q.id, q.golds) for q in questions] == [(str(n), (f"writer {n}",)) for n in range(6)]
    assert len(found) == 60


def rows_file(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def test_equal_questions_are_in_one_split(tmp_path: Path) -> None:
    texts = [f"Who wrote book {n // 4}?" for n in range(40)]
    texts[1] = "WHO wrote the book 0"
    path = rows_file(tmp_path / "q.jsonl", [{"question": t, "answer": "a"} for t in texts])
    splits = assign_splits(check_questions(path))
    for start in range(0, 40, 4):
        assert len(set(splits[start : start + 4])) == 1
    assert set(splits) == set(SPLITS)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"question": "Who?", "split": "test"}, "the question of row 1 again, in test and not t"),
        ({"question": "What?"}, "no split, unlike row 1"),
        ({"question": "What?", "split": "fold 3"}, "'split' is none of train, training, dev"),
        ({"question": "What?", "split": "train", "answer": None}, "no gold answer under 'answer'"),
    ],
)
def test_rows_that_contradict_earlier_ones_are_named(
    tmp_path: Path, second: dict[str, Any], words: str
) -> None:
    first = {"question": "who", "answer": "a", "split": "train"}
    path = rows_file(tmp_path / "q.jsonl", [first, {"answer": "a"} | second])
    with pytest.raises(ValueError, match=rf"q\.jsonl: 1 of 2 rows: row 2: {words}"):
        check_questions(path)


def test_a_passage_that_stands_there_twice_counts_once(tmp_path: Path) -> None:
    row = {"id": "a", "title": "t", "text": "x"}
    assert check_corpus(rows_file(tmp_path / "c.jsonl", [row, row, row | {"id": "b"}])) == [2]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"id": "a", "text": "y"}, r"passage 2 \('a', ''\) has an id that is used before"),
        ({"id": None, "text": "y"}, r"passage 2 \('', ''\) has no id, as 1 of 2 passages"),
    ],
)
def test_faulty_ids_of_passages_are_named(
    tmp_path: Path, second: dict[str, Any], words: str
) -> None:
    path = rows_file(tmp_path / "c.jsonl", [{"id": "a", "text": "x"}, second])
    with pytest.raises(ValueError, match=rf"c\.jsonl: {words}"):
        check_corpus(path)
