"""Fetching from a folder that stands for the hub: cuts, archives, hashes, and missing files."""

import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosearch.data.fetch_hub import RECORD, fetch
from cosearch.data.passages import read_passages
from cosearch.files.hashes import hash_file
from cosearch.params.hub import Hub, HubFile, HubModel
from cosearch.params.settings import load_settings

ROOT = Path(__file__).parents[2]
REVISION = "0123456789" * 4


class FolderHub:
    """A hub in a folder: KIND/REPO/REVISION/FILE. It counts what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []

    def __call__(self, kind: str, repo: str, revision: str, name: str) -> Path:
        self.asked.append(name)
        path = self.folder / kind / repo / revision / name
        if not path.is_file():
            raise FileNotFoundError(name)
        return path

    def put(self, kind: str, repo: str, name: str, data: bytes) -> Path:
        path = self.folder / kind / repo / REVISION / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path


def file(path: str, **values: object) -> HubFile:
    usual = {"repo": "a/sets", "revision": REVISION, "path": path, "sha256": None}
    usual |= {"member": None, "skip": 0, "rows": None, "exact": False}
    return HubFile.model_validate(usual | values)


def numbered(count: int) -> bytes:
    return b"".join(json.dumps({"id": n}).encode() + b"\n" for n in range(count))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[FolderHub]:
    yield FolderHub(tmp_path / "hub")


def run(tmp_path: Path, hub: FolderHub, files: dict[str, HubFile], **models: HubModel) -> None:
    fetch(Hub(models=models, files=files), tmp_path, tmp_path / "data", hub, lambda _: None)


def test_train_and_held_out_rows_are_cut_apart(tmp_path: Path, hub: FolderHub) -> None:
    hub.put("dataset", "a/sets", "train.jsonl", numbered(10))
    files = {
        "train.jsonl": file("train.jsonl", rows=6),
        "held_out.jsonl": file("train.jsonl", skip=6, rows=3),
    }
    run(tmp_path, hub, files)
    texts = [(tmp_path / "data" / name).read_text() for name in files]
    ids = [[json.loads(line)["id"] for line in text.splitlines()] for text in texts]
    assert ids == [[0, 1, 2, 3, 4, 5], [6, 7, 8]]
    record = json.loads((tmp_path / "data" / RECORD).read_text())
    assert record["train.jsonl"]["rows"] == 6
    assert record["train.jsonl"]["sha256"] == hash_file(tmp_path / "data/train.jsonl")


def test_what_is_there_is_checked_and_not_fetched_again(tmp_path: Path, hub: FolderHub) -> None:
    hub.put("dataset", "a/sets", "test.jsonl", numbered(4))
    files = {"test.jsonl": file("test.jsonl", rows=4, exact=True)}
    run(tmp_path, hub, files)
    run(tmp_path, hub, files)
    assert hub.asked == ["test.jsonl"]
    (tmp_path / "data/test.jsonl").write_text("changed")
    with pytest.raises(ValueError, match="expected; remove it and fetch again"):
        run(tmp_path, hub, files)


@pytest.mark.parametrize(
    ("rows", "exact", "message"),
    [(5, False, "4 rows after line 0, 5 expected"), (3, True, "more than 3 rows after line 0")],
)
def test_another_number_of_rows_is_refused(
    tmp_path: Path, hub: FolderHub, rows: int, exact: bool, message: str
) -> None:
    hub.put("dataset", "a/sets", "test.jsonl", numbered(4))
    with pytest.raises(ValueError, match=message):
        run(tmp_path, hub, {"test.jsonl": file("test.jsonl", rows=rows, exact=exact)})
    assert not (tmp_path / "data/test.jsonl").exists()


def test_another_content_than_pinned_or_recorded_is_refused(tmp_path: Path, hub: FolderHub) -> None:
    path = hub.put("dataset", "a/sets", "train.jsonl", numbered(4))
    good, wrong = hash_file(path), "0" * 64
    with pytest.raises(ValueError, match=f"sha256 {good}, {wrong} expected"):
        run(tmp_path, hub, {"a.jsonl": file("train.jsonl", sha256=wrong)})
    run(tmp_path, hub, {"a.jsonl": file("train.jsonl", sha256=good)})
    path.write_bytes(numbered(5))
    with pytest.raises(ValueError, match=f"{good} expected"):
        run(tmp_path, hub, {"b.jsonl": file("train.jsonl", rows=2)})


def test_a_corpus_comes_out_of_its_archive(tmp_path: Path, hub: FolderHub) -> None:
    lines = b"".join(
        json.dumps({"id": str(n), "contents": f'"Title {n}"\nText {n}.'}).encode() + b"\n"
        for n in range(3)
    )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in (("a/other.jsonl", b"{}\n"), ("a/dump.jsonl", lines)):
            item = tarfile.TarInfo(name)
            item.size = len(content)
            archive.addfile(item, io.BytesIO(content))
    hub.put("dataset", "a/sets", "wiki.jsonl.gz", buffer.getvalue())
    wanted = file("wiki.jsonl.gz", member="a/dump.jsonl", rows=3, exact=True)
    run(tmp_path, hub, {"wiki.jsonl": wanted})
    passages = list(read_passages(tmp_path / "data/wiki.jsonl"))
    assert [passage.title for passage in passages] == ["Title 0", "Title 1", "Title 2"]
    lost = file("wiki.jsonl.gz", member="a/none.jsonl")
    with pytest.raises(ValueError, match=r"the archive holds no a/none\.jsonl"):
        run(tmp_path, hub, {"lost.jsonl": lost})


def test_models_are_copied_with_a_template_where_one_is_given(
    tmp_path: Path, hub: FolderHub
) -> None:
    for name in ("config.json", "model.safetensors"):
        hub.put("model", "a/model", name, name.encode())
    model = HubModel(
        repo="a/model",
        revision=REVISION,
        files=("config.json", "model.safetensors"),
        chat_template="{{ messages }}",
    )
    for _ in range(2):
        run(tmp_path, hub, {}, large=model)
    assert hub.asked == ["config.json", "model.safetensors"]
    assert (tmp_path / "large/model.safetensors").read_bytes() == b"model.safetensors"
    assert (tmp_path / "large/chat_template.jinja").read_text() == "{{ messages }}"
    (tmp_path / "large/config.json").write_text("changed")
    with pytest.raises(ValueError, match=r"large/config\.json: sha256"):
        run(tmp_path, hub, {}, large=model)


def test_without_a_hub_everything_lacking_is_named_with_its_place(
    tmp_path: Path, hub: FolderHub
) -> None:
    settings = load_settings("paper", ROOT / "params.yaml")
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE=0") as caught:
        fetch(settings.file.hub["paper"], tmp_path, tmp_path / "data", hub, lambda _: None)
    message = str(caught.value)
    assert "\n" not in message
    assert message.count(" at ") == (9 + 7 + 4 + 4) + (4 + 4 + 7 + 1) + (1 + 3)
    assert "nq/train.jsonl (lines 20481 to 20608) at " in message
    assert f"{tmp_path / 'models/paper/large/config.json'}" in message


def test_what_is_fetched_is_what_the_profile_reads() -> None:
    file_ = load_settings("paper", ROOT / "params.yaml").file
    profile, hub = file_.profiles["paper"], file_.hub["paper"]
    assert set(hub.models) == set(filter(None, profile.models.model_dump().values()))
    read = {source.path for row in profile.data.sets.values() for source in row.files.values()}
    listed = {name for source in profile.data.lists.values() for name in source.files()}
    assert set(hub.files) == read | listed | {profile.data.corpus}
    for row in profile.data.sets.values():
        for split, source in row.files.items():
            assert hub.files[source.path].rows == getattr(row, split)


def test_queries_of_lists_follow_the_training_questions_of_their_file() -> None:
    file_ = load_settings("paper", ROOT / "params.yaml").file
    files, lists = file_.hub["paper"].files, file_.profiles["paper"].data.lists
    before = [files[f"questions/nq/{name}.jsonl"] for name in ("train", "held_out")]
    listed = files[lists["nq"].path]
    assert {row.path for row in before} == {listed.path}
    assert listed.skip == sum(row.rows or 0 for row in before)
    assert listed.rows == lists["nq"].queries == lists["msmarco"].queries == 50000


def test_a_broken_copy_leaves_nothing_behind(tmp_path: Path, hub: FolderHub) -> None:
    hub.put("dataset", "a/sets", "test.jsonl", numbered(1))
    with pytest.raises(ValueError, match="1 rows"):
        run(tmp_path, hub, {"test.jsonl": file("test.jsonl", rows=2)})
    shutil.rmtree(hub.folder)
    with pytest.raises(ValueError, match="cannot be fetched"):
        run(tmp_path, hub, {"test.jsonl": file("test.jsonl", rows=1)})


def test_what_was_put_there_by_hand_is_bound_as_it_is(tmp_path: Path, hub: FolderHub) -> None:
    model = HubModel(repo="a/model", revision=REVISION, files=("config.json",), chat_template=None)
    files = {"train.jsonl": file("train.jsonl", rows=4)}
    for name, data in (("large/config.json", b"{}"), ("data/train.jsonl", numbered(4))):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    for _ in range(2):
        run(tmp_path, hub, files, large=model)
    record = json.loads((tmp_path / "data" / RECORD).read_text())["train.jsonl"]
    assert (record["rows"], record["published_sha256"]) == (4, None)
    (tmp_path / "large/config.json").write_text("changed")
    with pytest.raises(ValueError, match="expected; remove it and fetch again"):
        run(tmp_path, hub, files, large=model)


def test_a_file_put_there_by_hand_has_the_wanted_rows(tmp_path: Path, hub: FolderHub) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train.jsonl").write_bytes(numbered(3))
    with pytest.raises(ValueError, match=r"train\.jsonl: 3 rows, 4 expected"):
        run(tmp_path, hub, {"train.jsonl": file("train.jsonl", rows=4)})
