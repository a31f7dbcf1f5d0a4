"""The question loaders read invented samples of every published format, and real files."""

import contextlib
import gzip
import hashlib
import json
import shutil
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosearch.core.types import Question
from cosearch.data.formats import FORMATS, sniff
from cosearch.data.questions import QuestionFile, QuestionSet, load_questions, sample_questions
from cosearch.files.artifacts import write_jsonl

SAMPLES = Path(__file__).parent / "samples"
REAL = Path(__file__).parents[3] / "shared" / "data"
needs_real_data = pytest.mark.skipif(not REAL.is_dir(), reason="no real data beside the project")


def load(path: Path, split: str | None = "test", **changes: object) -> QuestionSet:
    return load_questions(QuestionFile("set", path, split, "origin", **changes))  # type: ignore[arg-type]


def rows(name: str, split: str | None = "test") -> list[tuple[str, str, tuple[str, ...]]]:
    return [(q.id, q.text, q.golds) for q in load(SAMPLES / name, split).questions]


def test_nq_open_numbers_its_rows_and_keeps_odd_golds() -> None:
    assert rows("nq_open.jsonl") == [
        ("test_0", "who painted the ferry at dusk", ("Mira Oldham",)),
        ("test_1", "what follows the blank line", ("---", "dash")),
        ("test_2", "when did the lighthouse open", ("14 May\u00a01907", "1907")),
    ]


def test_dpr_undoes_the_csv_quoting_of_its_cells_once() -> None:
    assert rows("dpr.txt") == [
        ("test_0", "who painted the ferry at dusk", ("Mira Oldham",)),
        ("test_1", "where is oldham's pier", ("Dun Harbor", "Oldham's Pier")),
        ("test_2", '"Who said ""the sea forgets""?"', ("Röse Venn",)),
    ]


def test_triviaqa_puts_the_value_before_its_aliases() -> None:
    assert rows("triviaqa.json") == [
        ("tx_1", "Which painter signed The Ferry at Dusk?", ("Mira Oldham", "M. Oldham")),
        ("tx_2", "How many oars has the ferry?", ("8",)),
    ]


def test_popqa_table_and_paragraphs() -> None:
    table = load(SAMPLES / "popqa.tsv").questions
    assert [(q.id, q.golds, q.supporting) for q in table] == [
        ("40", ("painter", "artist"), ()),
        ("41", ("poet",), ()),
    ]
    (question,) = load(SAMPLES / "popqa_paragraphs.json").questions
    assert (question.id, question.golds) == ("0", ("painter", "artist"))
    assert question.supporting == ("Mira Oldham", "Painter")


def test_bamboogle_survives_stray_bytes_and_says_so() -> None:
    result = load(SAMPLES / "bamboogle.csv", format="bamboogle")
    assert [q.golds for q in result.questions] == [
        ("Mira Oldham",),
        ("3-May-07",),
        ("Oldham's Pier", "The Old Pier"),
    ]
    assert "forgets\ufffd born" in result.questions[1].text
    assert result.manifest["counts"]["sheet_dates"] == 1
    assert result.manifest["counts"]["lost_bytes"] == 1
    with pytest.raises(ValueError, match=r"bamboogle\.csv: line 3: not UTF-8 \(byte 0x"):
        load(SAMPLES / "bamboogle.csv")


def test_hotpotqa_names_its_evidence_once() -> None:
    first, second = load(SAMPLES / "hotpotqa.json").questions
    assert (first.id, first.golds) == ("h1", ("Dun Harbor",))
    assert first.supporting == ("The Ferry at Dusk", "Mira Oldham")
    assert second.golds == ("yes",)


def test_2wiki_answers_are_a_string_or_a_list_and_have_aliases() -> None:
    path = SAMPLES / "2wikimultihopqa.json"
    assert [q.golds for q in load(path).questions] == [("Ada Oldham",), ("The pier", "pier")]
    named = load(path, aliases=SAMPLES / "2wikimultihopqa_aliases.json").questions
    assert named[0].golds == ("Ada Oldham", "A. Oldham", "Oldhamite")
    assert named[1].golds == ("The pier", "pier")


def test_musique_aliases_and_evidence() -> None:
    (question,) = load(SAMPLES / "musique.jsonl").questions
    assert question.golds == ("Westmark", "County of Westmark")
    assert question.supporting == ("Mira Oldham", "Dun Harbor")


def test_flashrag_keeps_ids_and_text_as_published() -> None:
    assert rows("flashrag.jsonl") == [
        ("test_7", '"Who said ""the sea forgets""?"', ("Röse Venn",)),
        ("test_2", "who painted the ferry at dusk", ("Mira Oldham", "Oldham")),
    ]
    assert load(SAMPLES / "flashrag.jsonl").manifest["counts"]["quoted_text"] == 1


VERL = [
    ("test_0", "Which pier is older?", ("Oldham's Pier",)),
    ("test_1", "who painted it?", ("Mira Oldham", "Oldham")),
]


def test_verl_ground_truth_is_a_string_or_a_target() -> None:
    assert rows("verl.jsonl") == VERL


def test_search_r1_parquet(tmp_path: Path) -> None:
    path = tmp_path / "nq_search.parquet"
    pl.DataFrame(
        {
            "id": ["test_0"],
            "question": ["who painted it?"],
            "golden_answers": [["Mira Oldham"]],
            "prompt": [[{"content": "Search first. Question: who painted it?", "role": "user"}]],
            "reward_model": [{"ground_truth": {"target": ["Mira Oldham"]}, "style": "rule"}],
        }
    ).write_parquet(path)
    assert rows(path, "test") == [("test_0", "who painted it?", ("Mira Oldham",))]  # type: ignore[arg-type]


def test_a_split_selects_rows_that_carry_one() -> None:
    path = SAMPLES / "unified.jsonl"
    assert [q.id for q in load(path, None).questions] == ["u1", "u2"]
    (question,) = load(path, "dev").questions
    assert question.golds == ("Dun Harbor", "Dun Harbour")
    assert question.supporting == ("3",)
    with pytest.raises(ValueError, match=r"unified\.jsonl: no rows of split 'test'"):
        load(path, "test")


def test_gzip_is_read_through(tmp_path: Path) -> None:
    path = tmp_path / "nq_open.jsonl.gz"
    with gzip.open(path, "wb") as file:
        file.write((SAMPLES / "nq_open.jsonl").read_bytes())
    assert rows(path, "test") == rows("nq_open.jsonl")  # type: ignore[arg-type]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"nq_open\.jsonl\.gz: damaged or truncated gzip"):
        load(path)


def test_manifest_binds_the_set_to_its_file() -> None:
    manifest = load(SAMPLES / "nq_open.jsonl").manifest
    content = (SAMPLES / "nq_open.jsonl").read_bytes()
    assert manifest["sha256"] == hashlib.sha256(content).hexdigest()
    assert (manifest["file"], manifest["format"], manifest["rows"]) == (
        "nq_open.jsonl",
        "nq_open",
        3,
    )
    assert manifest["counts"] == {
        "yes_no": 0,
        "empty_golds": 1,
        "short_golds": 0,
        "sheet_dates": 0,
        "quoted_text": 0,
        "repeated": 0,
        "lost_bytes": 0,
    }
    assert load(SAMPLES / "hotpotqa.json").manifest["counts"]["yes_no"] == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"question": "q", "answer": ["a"]}\n{"questi', r"a\.jsonl: row 2: not JSON"),
        ("a.jsonl", '{"question": "q", "answer": []}', r"a\.jsonl: row 1: no gold answer"),
        ("a.jsonl", '{"question": "q", "answer": [" "]}', r"a\.jsonl: row 1: no gold answer"),
        ("a.jsonl", '{"question": "q", "answer": [3]}', r"row 1: 'answer' is not a text but int 3"),
        ("a.jsonl", '{"question": " ", "answer": ["a"]}', r"row 1: blank 'question'"),
        ("a.jsonl", '{"query": "q"}', r"a\.jsonl: row 1: no known format has keys \['query'\]"),
        ("a.jsonl", '{"question": "q", "answer": "a"}\n[1]', r"row 2: list, not an object"),
        ("a.jsonl", '{"question": "q", "answer": "a"}\n{"question": "r"}', r"row 2: no key 'answ"),
        ("a.jsonl", "", r"a\.jsonl: no rows"),
        ("a.json", '[{"question": "q"', r"a\.json: not JSON, truncated"),
        ("a.json", '{"rows": []}', r"a\.json: row 1: no known format has keys \['rows'\]"),
        ("a.json", '{\n"rows": []}', r"a\.json: neither a list"),
        ("a.txt", "q\t['a']\nr\t['b', ", r"a\.txt: row 2: 'answers': not a list literal"),
        ("a.txt", "q\t['a']\nr\tb", r"a\.txt: row 2: not a list literal"),
        ("a.txt", "q\t['a']\nr", r"a\.txt: row 2: 1 cells, not 2"),
        ("a.txt", "q\t{'a': 1}\n", r"a\.txt: row 1: 'answers': an object written as text"),
        ("a.txt", "q\t\"['a']\n", r"a\.txt: row 1: unexpected end of data"),
        ("a.xml", "<q/>", r"a\.xml: suffix '\.xml' is none of"),
        ("a.parquet", "PAR1 and nothing", r"a\.parquet: damaged or truncated Parquet"),
    ],
)
def test_bad_files_are_refused_in_one_line(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_missing_files_and_duplicate_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.jsonl: no such file"):
        load(tmp_path / "nowhere.jsonl")
    path = tmp_path / "twice.jsonl"
    shutil.copy(SAMPLES / "flashrag.jsonl", path)
    path.write_text(path.read_text("utf-8") * 2, "utf-8")
    with pytest.raises(ValueError, match=r"twice\.jsonl: row 3: duplicate id 'test_7'"):
        load(path)


def test_a_declared_format_is_checked() -> None:
    assert load(SAMPLES / "nq_open.jsonl", format="nq_open").manifest["format"] == "nq_open"
    with pytest.raises(ValueError, match="format 'squad' is none of"):
        load(SAMPLES / "nq_open.jsonl", format="squad")
    with pytest.raises(ValueError, match=r"nq_open\.jsonl: row 1: no key 'golden_answers'"):
        load(SAMPLES / "nq_open.jsonl", format="flashrag")


texts = st.text(min_size=1).filter(lambda text: text.strip() == text)


@given(texts, st.lists(texts, min_size=1, unique=True))
def test_dpr_and_nq_open_agree_on_any_text(question: str, golds: list[str]) -> None:
    listed = FORMATS["nq_open"].parse({"question": question, "answer": golds})
    written = FORMATS["dpr"].parse({"question": question, "answers": repr(golds)})
    assert listed == written
    assert (listed.text, list(listed.golds)) == (question, golds)


ROW = st.builds(
    Question, st.text(min_size=1), st.just("set"), texts,
    st.lists(texts, min_size=1, unique=True).map(tuple), st.lists(texts, unique=True).map(tuple),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.lists(ROW, min_size=1, unique_by=lambda row: row.id))
def test_questions_are_read_as_they_were_written(written: list[Question]) -> None:
    unified = [
        {"id": q.id, "question": q.text, "golden_answers": q.golds, "supporting_ids": q.supporting,
         "split": "test"} for q in written
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "questions.jsonl"
        write_jsonl(path, unified)
        assert load(path).questions == tuple(written)


KEYS = ["question", "answer", "answers", "id", "prompt", "reward_model"]


@given(st.dictionaries(st.sampled_from(KEYS), st.text()))
def test_parsers_fail_only_in_ways_the_loader_reports(record: dict[str, str]) -> None:
    name = sniff(record)
    if name is None:
        return
    with contextlib.suppress(ValueError):
        FORMATS[name].parse(record)


def make(dataset: str, number: int) -> list[Question]:
    return [Question(f"{dataset}-{n}", dataset, "q", ("a",)) for n in range(number)]


def test_samples_nest_and_do_not_depend_on_order() -> None:
    questions = [*make("nq", 101), *make("bamboogle", 9)]
    half = sample_questions(questions, 0.5, whole=frozenset({"bamboogle"}))
    assert sum(q.dataset == "nq" for q in half) == 50
    assert sum(q.dataset == "bamboogle" for q in half) == 9
    turned = sample_questions(questions[::-1], 0.5, whole=frozenset({"bamboogle"}))
    assert turned == half[::-1]
    assert set(sample_questions(questions, 0.2)) < set(sample_questions(questions, 0.5))
    assert sample_questions(questions, 1.0) == questions
    with pytest.raises(ValueError, match="eval_fraction: 0"):
        sample_questions(questions, 0.0)


@needs_real_data
@pytest.mark.parametrize(
    ("path", "form", "count"),
    [
        ("nq/NQ-open.dev.jsonl", "nq_open", 3610),
        ("nq/NQ-open.efficientqa.dev.1.1.jsonl", "nq_open", 1800),
        ("nq/dpr.nq.test.txt", "dpr", 3610),
        ("nq/nq_dev_with_wikipedia_title.jsonl", "nq_open", 200),
        ("triviaqa/triviaqa_sample.json", "triviaqa", 1),
        ("triviaqa/dpr.trivia.test.txt", "dpr", 11313),
        ("triviaqa/triviaqa_200.jsonl", "nq_open", 200),
        ("flashrag/nq.test.subsample.jsonl", "flashrag", 1000),
        ("flashrag/triviaqa.test.subsample.jsonl", "flashrag", 1000),
        ("flashrag/popqa.test.subsample.jsonl", "flashrag", 1000),
        ("flashrag/bamboogle.test.subsample.jsonl", "flashrag", 125),
        ("search_r1/nq_search.test.parquet", "verl", 3610),
        ("popqa/popqa_head1000_with_paragraphs.json", "popqa", 1000),
        ("popqa/popQA.head1000.reconstructed.tsv", "popqa", 1000),
        ("bamboogle/verl.test.jsonl", "verl", 125),
        ("hotpotqa/hotpot_dev_distractor_v1.sample200.json", "hotpotqa", 200),
        ("hotpotqa/hotpot_train_v1.1.sample100.json", "hotpotqa", 100),
        ("hotpotqa/verl.dev7405.parquet", "verl", 7405),
        ("2wikimultihopqa/dev.sample164.json", "hotpotqa", 164),
        ("2wikimultihopqa/train.sample500.json", "hotpotqa", 500),
        ("2wikimultihopqa/dev1000.answers_with_aliases.json", "nq_open", 1000),
        ("musique/musique_ans_v1.0_dev.sample200.jsonl", "musique", 200),
        ("musique/musique_ans_v1.0_train.sample100.jsonl", "musique", 100),
        ("musique/verl.dev.parquet", "verl", 2417),
    ],
)
def test_real_files(path: str, form: str, count: int) -> None:
    manifest = load(REAL / "upstream" / path).manifest
    assert (manifest["format"], manifest["rows"]) == (form, count)


@needs_real_data
def test_packagings_of_one_set_agree() -> None:
    """NQ and Bamboogle come in several packagings: the same questions under the same ids."""
    upstream = REAL / "upstream"

    def letters(path: str, form: str | None = None) -> dict[str, str]:
        questions = load(upstream / path, format=form).questions
        return {q.id: "".join(filter(str.isalnum, q.text.lower())) for q in questions}

    # DPR's texts are tokenised ("america 's"), Search-R1's are not; rows and ids are the same.
    assert letters("nq/dpr.nq.test.txt") == letters("search_r1/nq_search.test.parquet")
    sheet = letters("flashrag/bamboogle.test.subsample.jsonl")
    assert sheet == letters("bamboogle/verl.test.jsonl")
    assert sheet == letters("bamboogle/Bamboogle Prerelease - Sheet1.csv", "bamboogle")


@needs_real_data
def test_mini_rows_equal_the_published_numbers() -> None:
    stats = json.loads((REAL / "mini" / "stats.json").read_text("utf-8"))["questions"]
    for name, expected in stats.items():
        result = load(REAL / "mini" / "questions" / f"{name}.jsonl", None)
        assert result.manifest["rows"] == expected["n"]
        assert sum(bool(q.supporting) for q in result.questions) == expected["with_supporting"]
