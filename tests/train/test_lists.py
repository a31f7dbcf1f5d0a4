"""The Fixed Ranker's lists over a tiny encoder: made from two sources in blocks, read lazily."""

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cosearch.core.seeds import derive
from cosearch.data.assemble import assemble, read_questions
from cosearch.data.corpus import Corpus
from cosearch.data.index import open_collection
from cosearch.data.world import build_world
from cosearch.files.artifacts import (
    LISTS_SCHEMA,
    Paths,
    move_folder,
    read_frame,
    read_json,
    write_frame,
)
from cosearch.files.hashes import hash_file
from cosearch.params import blocks
from cosearch.params.settings import Settings, load_settings
from cosearch.report.write import manifest_rows
from cosearch.rollouts.wiring import Parts
from cosearch.run.identity import identity_of
from cosearch.run.progress import Progress
from cosearch.run.stage import Stage
from cosearch.train import lists as made
from cosearch.train.lists import Lists, make_lists
from tests.settings import write_params

ROOT = Path(__file__).parents[2]
SOURCES: dict[str, Any] = {
    "nq": {
        "path": "nq.jsonl", "source": "self-made", "format": "flashrag", "queries": 12,
        "collection": None, "qrels": None,
    },
    "msmarco": {
        "path": "queries.jsonl", "source": "self-made", "format": None, "queries": 10,
        "collection": "corpus.jsonl", "qrels": "qrels.tsv",
    },
}  # fmt: skip
PASSAGES = 400
"""Of the generated world, so that encoding takes a second."""


def rows(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")


def put_files(folder: Path) -> None:
    """A corpus and questions; and a collection whose passages have other ids, with its queries."""
    folder.mkdir()
    world = build_world({"nq": {"train": 400, "dev": 0, "test": 0}}, 8)
    passages, questions = world.passages[:PASSAGES], world.questions("nq", "train")
    held = {passage.id for passage in passages}
    asked = [question for question in questions if set(question.supporting) <= held]
    rows(
        folder / "passages.jsonl",
        ({"id": p.id, "title": p.title, "text": p.text} for p in passages),
    )
    rows(
        folder / "nq.jsonl",
        ({"id": q.id, "question": q.text, "golden_answers": q.golds} for q in asked),
    )
    rows(
        folder / "corpus.jsonl",
        ({"_id": f"m-{p.id}", "title": "", "text": f"{p.title} {p.text}"} for p in passages),
    )
    rows(folder / "queries.jsonl", ({"_id": f"m-{q.id}", "text": q.text} for q in asked))
    judged = "".join(f"m-{q.id}\tm-{q.supporting[0]}\t1\n" for q in asked)
    (folder / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", "utf-8")


def make_stage(folder: Path, sources: Mapping[str, Any], lists: int) -> Stage:
    """Data and index of profile tiny over the files, and the stage that makes lists of them."""
    put_files(folder / "files")
    train = {"path": "nq.jsonl", "split": None, "source": "self-made", "format": "flashrag"}
    counts = {"kind": "single", "train": 7, "dev": 0, "test": 0, "files": {"train": train}}
    data = {
        "source": "files", "folder": "files", "corpus": "passages.jsonl",
        "sets": {"nq": counts}, "lists": dict(sources),
    }  # fmt: skip

    def change(params: dict[str, Any]) -> None:
        tiny = params["profiles"]["tiny"]
        tiny["data"] |= data
        tiny["fixed_ranker"]["lists"] = lists

    path = write_params(folder, change)
    (folder / "models").symlink_to(ROOT / "models")
    settings, paths = load_settings("tiny", path), Paths("tiny")
    assemble(settings.section(blocks.Data), folder / "files", paths)
    settings.asked.clear()
    open_collection(settings, Corpus(paths.corpus), Path("work"), lambda *_: None)
    move_folder(Path("work/index"), paths.index)
    identity = identity_of(settings, "fixed_ranker_data", {})
    return Stage("fixed_ranker_data", settings, paths, {}, Progress(), identity)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterable[Stage]:
    """A stage over both sources, whose lists are made, in its own folder."""
    folder = tmp_path_factory.mktemp("lists")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        made_by = make_stage(folder, SOURCES, lists=1000)
        make_lists(made_by, Path("lists"))
        yield made_by


def lists_of(folder: str) -> pl.DataFrame:
    return read_frame(Path(folder) / "lists.parquet", LISTS_SCHEMA)


def lazy(stage: Stage, folder: str = "lists") -> Lists:
    collections = {"msmarco": Corpus(stage.paths.collection("msmarco"))}
    return Lists(Path(folder) / "lists.parquet", Corpus(stage.paths.corpus), collections)


def test_lists_come_from_every_source_in_one_seeded_order(stage: Stage) -> None:
    frame, seed = lists_of("lists"), stage.settings.section(blocks.FixedRanker).seed
    counts = dict(frame["dataset"].value_counts().iter_rows())
    assert 0 < counts["nq"] <= 12
    assert 0 < counts["msmarco"] <= 10
    order = [
        derive(seed, "lists", dataset, id_)
        for dataset, id_ in frame.select("dataset", "question_id").iter_rows()
    ]
    assert order == sorted(order)
    assert read_json(Path("lists/metrics.json")) == {
        "queries": 22, "answerable": len(frame), "wanted": 1000,
    }  # fmt: skip


def test_every_list_holds_an_answer_in_its_own_corpus(stage: Stage) -> None:
    relevance = Parts.of(stage.settings, {}).credit().relevance
    for entry in lazy(stage):
        ids = [candidate.passage.id for candidate in entry.candidates]
        assert {id_.startswith("m-") for id_ in ids} == {entry.question.dataset == "msmarco"}
        labels = relevance.label(entry.question, entry.candidates)
        assert any(labels)
        if entry.question.dataset == "msmarco":
            (source,) = (
                question
                for question in read_questions(stage.paths, "lists/msmarco")
                if question.id == entry.question.id
            )
            assert [id_ for id_, yes in zip(ids, labels, strict=True) if yes] == [
                *source.supporting
            ]


def test_fewer_lists_are_the_first_of_the_order(stage: Stage) -> None:
    settings = stage.settings
    block = settings.file.profiles["tiny"].fixed_ranker.model_copy(update={"lists": 5})
    profile = settings.file.profiles["tiny"].model_copy(update={"fixed_ranker": block})
    file = settings.file.model_copy(update={"profiles": {"tiny": profile}})
    short = replace(stage, settings=Settings(file, "tiny"))
    make_lists(short, Path("short"))
    assert lists_of("short").equals(lists_of("lists").head(5))


def test_vectors_of_a_collection_stay_and_its_index_goes(stage: Stage) -> None:
    work = stage.paths.run("fixed_ranker_data", "collection_msmarco")
    shards = {path: path.stat().st_mtime_ns for path in (work / "encoded").glob("*.npy")}
    assert shards
    assert not (work / "index").exists()
    make_lists(stage, Path("again"))
    assert {path: path.stat().st_mtime_ns for path in shards} == shards
    for name in ("lists.parquet", "metrics.json"):
        assert (Path("again") / name).read_bytes() == (Path("lists") / name).read_bytes()


def test_blocks_find_what_one_batch_finds(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "BLOCK", 3)
    make_lists(stage, Path("blocks"))
    whole, parts = lists_of("lists"), lists_of("blocks")
    assert parts.drop("scores").equals(whole.drop("scores"))
    scores = [frame["scores"].explode().to_list() for frame in (parts, whole)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def test_entries_are_read_when_they_are_asked_for(stage: Stage) -> None:
    lists, frame = lazy(stage), lists_of("lists")
    assert len(lists) == len(frame)
    entries = [lists[place] for place in range(len(lists))]
    assert list(lists) == entries == lists[:]
    assert (lists[-1], lists[2:5]) == (entries[-1], entries[2:5])
    with pytest.raises(IndexError):
        lists[len(lists)]
    for size in (2, len(lists)):
        drawn = [random.Random(size).sample(one, size) for one in (lists, entries)]
        assert drawn[0] == drawn[1]
    for entry, row in zip(entries, frame.iter_rows(named=True), strict=True):
        assert entry.question.golds == tuple(row["golds"])
        shown = [(candidate.passage.id, candidate.score) for candidate in entry.candidates]
        assert shown == list(zip(row["candidate_ids"], row["scores"], strict=True))


def test_a_passage_that_its_corpus_lacks_is_named(stage: Stage) -> None:
    frame = lists_of("lists")
    first = frame.row(0, named=True)
    lost = {"candidate_ids": [["gone", *first["candidate_ids"][1:]]]}
    broken = frame.head(1).with_columns(pl.Series("candidate_ids", lost["candidate_ids"]))
    write_frame(Path("broken/lists.parquet"), pl.concat([frame, broken]), LISTS_SCHEMA)
    with pytest.raises(ValueError, match="passage gone is not in this corpus; rebuild the lists"):
        lazy(stage, "broken")


def test_without_sources_the_training_questions_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = make_stage(tmp_path, {}, lists=1000)
    make_lists(plain, Path("lists"))
    asked = {question.id for question in read_questions(plain.paths, "train")}
    assert read_json(Path("lists/metrics.json"))["queries"] == len(asked) == 7
    assert set(lists_of("lists")["question_id"]) <= asked
    assert "profiles.tiny.data" not in plain.settings.asked


def test_the_report_names_every_file_of_the_lists(stage: Stage) -> None:
    found = {row["name"]: row for row in manifest_rows(stage.paths)}
    counts = {
        "lists nq, nq.jsonl": 12,
        "lists msmarco, queries.jsonl": 10,
        "lists msmarco, corpus.jsonl": PASSAGES,
        "lists msmarco, qrels.tsv": 10,
    }
    for name, count in counts.items():
        sha256 = hash_file(Path("files") / name.split(", ")[1])
        assert (found[name]["rows"], found[name]["sha256"]) == (count, sha256), name
    assert found.keys() - counts.keys() == {"corpus", "nq, train"}
