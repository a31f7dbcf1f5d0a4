"""The corpus reads published formats, writes one Arrow file with a hash, and refuses bad rows."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosearch.core.types import Passage
from cosearch.data.corpus import Corpus, write_corpus
from cosearch.data.passages import TextStyle, read_passages, split_contents, unquote
from cosearch.files.artifacts import write_jsonl

SAMPLES = Path(__file__).parent / "samples"
REAL = Path(__file__).parents[3] / "shared" / "data"
needs_real_data = pytest.mark.skipif(not REAL.is_dir(), reason="no real data beside the project")
PASSAGES = [Passage(str(n), f"Title {n}", f"text of passage {n}") for n in range(20)]


def bodies(name: str) -> list[tuple[str, str]]:
    return [(p.title, p.text) for p in read_passages(SAMPLES / name)]


def test_wiki18_and_psgs_are_one_corpus() -> None:
    assert bodies("wiki18.jsonl") == [
        ("The Ferry at Dusk", 'The Ferry at Dusk, or "The Ferry", is a painting.'),
        ("Oldham", "mid-sentence and so on."),
        ('"Venn" (poem)', "A poem."),
    ]
    assert bodies("psgs_w100.tsv") == bodies("wiki18.jsonl")


def test_mini_corpus_drops_and_counts_duplicates(tmp_path: Path) -> None:
    manifest = write_corpus(read_passages(SAMPLES / "corpus.jsonl"), tmp_path, source="mini")
    assert (manifest["rows"], manifest["duplicates"]) == (3, 1)
    corpus = Corpus(tmp_path)
    assert [p.id for p in corpus.passages(0, 9)] == ["0", "1", "3"]
    assert corpus.positions(["3", "2", "0"]).tolist() == [2, -1, 0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "hotpotqa.json",
            [
                ("0", "The Ferry at Dusk is a painting. It is by Mira Oldham."),
                ("1", "Mira Oldham was born in Dun Harbor."),
                ("2", "A ferry crosses."),
            ],
        ),
        (
            "2wikimultihopqa.json",
            [
                ("0", "Mira Oldham was the daughter of Ada Oldham."),
                ("1", "The pier is from 1850."),
            ],
        ),
        (
            "musique.jsonl",
            [
                ("0", "A ferry crosses."),
                ("1", "Mira Oldham was born in Dun Harbor."),
                ("2", "Dun Harbor lies in Westmark."),
            ],
        ),
        (
            "popqa_paragraphs.json",
            [
                ("0", "Mira Oldham was a painter."),
                ("1", "A painter paints."),
                ("2", "A ferry crosses."),
            ],
        ),
    ],
)
def test_contexts_are_pooled_and_numbered(
    tmp_path: Path, name: str, expected: list[tuple[str, str]]
) -> None:
    write_corpus(read_passages(SAMPLES / name), tmp_path, source=name)
    assert [(p.id, p.text) for p in Corpus(tmp_path).passages(0, 99)] == expected


def test_positions_slices_and_rows(tmp_path: Path) -> None:
    write_corpus(iter(PASSAGES), tmp_path, source="made")
    corpus = Corpus(tmp_path)
    assert len(corpus) == 20
    assert corpus.passage(7) == PASSAGES[7]
    assert [len(part) for part in corpus.slices(8)] == [8, 8, 4]
    assert [p for part in corpus.slices(8) for p in part] == PASSAGES
    assert corpus.passages(18, 99) == PASSAGES[18:]
    with pytest.raises(IndexError, match="no passage at 20"):
        corpus.passage(20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "passages.arrow"]


def test_the_hash_is_of_the_rows(tmp_path: Path) -> None:
    first = write_corpus(PASSAGES, tmp_path / "a", source="a")["sha256"]
    assert write_corpus([*PASSAGES, PASSAGES[3]], tmp_path / "b", source="b")["sha256"] == first
    assert write_corpus(PASSAGES[::-1], tmp_path / "c", source="a")["sha256"] != first
    assert Corpus(tmp_path / "a").content_sha256() == first
    moved = [Passage("0", "ab", "c"), Passage("0", "a", "bc")]
    hashes = {write_corpus([p], tmp_path / p.title, source="x")["sha256"] for p in moved}
    assert len(hashes) == 2


def test_rows_are_told_from_the_batches_they_are_stored_in(tmp_path: Path) -> None:
    """More rows than one Arrow batch, with duplicates on both sides of the boundary."""
    many = [Passage("", "t", f"text {n % 8200}") for n in range(8400)]
    manifest = write_corpus(many, tmp_path, source="many")
    assert (manifest["rows"], manifest["duplicates"]) == (8200, 200)
    assert Corpus(tmp_path).passage(8199) == Passage("8199", "t", "text 8199")
    assert Corpus(tmp_path).content_sha256() == manifest["sha256"]


def _broken() -> Iterator[Passage]:
    yield PASSAGES[0]
    raise RuntimeError("the source broke")


def test_an_interrupted_corpus_is_no_corpus(tmp_path: Path) -> None:
    write_corpus(PASSAGES, tmp_path, source="made")
    with pytest.raises(RuntimeError):
        write_corpus(_broken(), tmp_path, source="made")
    with pytest.raises(ValueError, match="no finished corpus"):
        Corpus(tmp_path)
    with pytest.raises(ValueError, match="no finished corpus"):
        Corpus(tmp_path / "nowhere")


def test_a_file_that_contradicts_its_manifest_is_refused(tmp_path: Path) -> None:
    write_corpus(PASSAGES, tmp_path / "a", source="a")
    write_corpus(PASSAGES[:5], tmp_path / "b", source="b")
    (tmp_path / "b" / "passages.arrow").replace(tmp_path / "a" / "passages.arrow")
    with pytest.raises(ValueError, match=r"has 5 rows, manifest\.json says 20"):
        Corpus(tmp_path / "a")
    path = tmp_path / "a" / "passages.arrow"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="no finished corpus"):
        Corpus(tmp_path / "a")


@pytest.mark.parametrize(
    ("passages", "message"),
    [
        ([Passage("0", "t", " ")], "made: passage 1 has no text"),
        (
            [Passage("0", "t", "a"), Passage("0", "t", "b")],
            "passage 2 has an id that is used",
        ),
        (
            [Passage("0", "t", "a"), Passage("", "t", "b")],
            "passage 2 has no id, as 1 of 2",
        ),
        ([], "made: no passages"),
    ],
)
def test_bad_rows_are_refused(tmp_path: Path, passages: list[Passage], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write_corpus(passages, tmp_path, source="made")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            {"id": "4", "title": "Empty", "text": "  "},
            r"passage 'Empty' has no text",
        ),
        (
            {"id": "4", "contents": "no break"},
            r"'contents' has no line break",
        ),
        (
            {"id": "4", "body": "x"},
            r"no known layout has keys \['body', 'id'\]",
        ),
        (
            {"id": "4", "title": 4, "text": "x"},
            r"'title' is not a text but int 4",
        ),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: dict[str, object], message: str) -> None:
    path = tmp_path / "c.jsonl"
    good = {"id": "3", "title": "t", "text": "x"}
    path.write_text(f"{json.dumps(good)}\n{json.dumps(line)}\n", "utf-8")
    with pytest.raises(ValueError, match=rf"c\.jsonl: row 2: not a passage: {message}"):
        list(read_passages(path))


WIKI18 = TextStyle(quoted=True, doubled=True, glue=" ")
clean = st.text().filter(lambda text: text.strip() == text and "\n" not in text)


@given(clean, clean)
def test_contents_undo_the_csv_quoting(title: str, text: str) -> None:
    doubled = [part.replace('"', '""') for part in (title, text)]
    stored = split_contents(f'"{doubled[0]}"\n{doubled[1]}')
    assert unquote(*stored, WIKI18) == (title, text)


@needs_real_data
def test_real_corpus(tmp_path: Path) -> None:
    mini = REAL / "mini"
    manifest = write_corpus(read_passages(mini / "corpus.jsonl.gz"), tmp_path, source="mini")
    assert (manifest["rows"], manifest["duplicates"]) == (52222, 0)
    corpus = Corpus(tmp_path)
    assert pa.total_allocated_bytes() < 16 << 20, "the corpus is mapped, not read"
    assert corpus.positions(["0", "52221"]).tolist() == [0, 52221]


@needs_real_data
def test_real_formats_of_the_same_chunks_agree() -> None:
    formats = REAL / "mini" / "formats"
    wiki18 = list(read_passages(formats / "wiki-18.sample2000.jsonl"))
    psgs = list(read_passages(formats / "psgs_w100.sample2000.tsv"))
    assert len(wiki18) == 2000
    assert [(p.title, p.text) for p in wiki18] == [(p.title, p.text) for p in psgs]


@needs_real_data
@pytest.mark.parametrize(
    ("path", "rows", "duplicates"),
    [
        ("search_r1/corpus.example.jsonl", 10, 0),
        ("2wikimultihopqa/hipporag_corpus.json", 6119, 0),
        ("2wikimultihopqa/neuropath_train_corpus.jsonl.gz", 8370, 0),
        ("hotpotqa/hotpot_dev_distractor_v1.sample200.json", 1971, 21),
        ("2wikimultihopqa/dev.sample164.json", 1294, 346),
        ("musique/musique_ans_v1.0_dev.sample200.jsonl", 3141, 859),
        ("popqa/popqa_head1000_with_paragraphs.json", 1475, 525),
    ],
)
def test_real_passages(tmp_path: Path, path: str, rows: int, duplicates: int) -> None:
    manifest = write_corpus(read_passages(REAL / "upstream" / path), tmp_path, source=path)
    assert (manifest["rows"], manifest["duplicates"]) == (rows, duplicates)


some = st.text(min_size=1).filter(str.strip)
BODIES = st.lists(st.tuples(st.text(), some), min_size=1, unique=True)


@settings(max_examples=30, deadline=None)
@given(BODIES)
def test_a_text_reaches_the_corpus_unchanged(bodies: list[tuple[str, str]]) -> None:
    rows = [Passage(str(n), *body) for n, body in enumerate(bodies)]
    with tempfile.TemporaryDirectory() as folder:
        file, made = Path(folder) / "rows.jsonl", Path(folder) / "corpus"
        write_jsonl(file, map(asdict, rows))
        write_corpus(read_passages(file), made, source="made")
        assert Corpus(made).passages(0, len(rows)) == rows
