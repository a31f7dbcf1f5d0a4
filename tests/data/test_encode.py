"""Shards of vectors: what is kept, what is thrown away, and that processes change nothing.

The encoder is a real one without weights (letter counts), so that spawned workers start fast.
"""

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosearch.core.types import Passage
from cosearch.data.corpus import write_corpus
from cosearch.data.encode import HostPart, encode_corpus
from cosearch.data.pace import Pace
from cosearch.engines.retrieval.encoder import worker_device
from cosearch.params.blocks import Encoder
from tests.settings import block

PASSAGES = [Passage(f"p{n}", f"title {n}", f"passage {n * 7919}") for n in range(50)]


class LetterCounts:
    """Vectors of 128 letter counts, times ``scale``. Its maker's number leaves a mark."""

    def __init__(self, worker: int, *, scale: float, marks: Path) -> None:
        marks.mkdir(parents=True, exist_ok=True)
        (marks / str(worker)).touch()
        self.dimension = 128
        self.scale = scale
        self.fingerprint: dict[str, Any] = {"model": "letter counts", "scale": scale}

    def encode_passages(self, passages: Sequence[Passage]) -> np.ndarray:
        codes = [np.frombuffer(p.text.encode("ascii"), np.uint8) for p in passages]
        counts = [np.bincount(code, minlength=self.dimension) for code in codes]
        with np.errstate(over="ignore"):
            return np.array(counts, np.float32) * np.float32(self.scale)


def ignore(done: int, total: int) -> None: ...


def encode(
    root: Path,
    *,
    scale: float = 1.0,
    shard_size: int = 16,
    processes: int = 1,
    progress: Callable[[int, int], None] = ignore,
    storage: str = "float32",
    part: HostPart | None = None,
) -> Any:
    if not (root / "corpus").exists():
        write_corpus(PASSAGES, root / "corpus", source="drawn")
    return encode_corpus(
        root / "corpus",
        root / "vectors",
        functools.partial(LetterCounts, scale=scale, marks=root / "workers"),
        block(Encoder, shard_size=shard_size, processes=processes, storage=storage),
        progress=progress,
        part=part,
    )


def contents(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((root / "vectors").iterdir())}


def test_shards_hold_the_corpus_in_order(tmp_path: Path) -> None:
    manifest = encode(tmp_path)
    assert [shard["rows"] for shard in manifest["shards"]] == [16, 16, 16, 2]
    assert (manifest["rows"], manifest["dimension"]) == (50, 128)
    assert manifest == json.loads((tmp_path / "vectors" / "manifest.json").read_text("utf-8"))
    paths = [tmp_path / "vectors" / shard["file"] for shard in manifest["shards"]]
    vectors = np.concatenate([np.load(path) for path in paths])
    counts = LetterCounts(0, scale=1.0, marks=tmp_path / "here")
    np.testing.assert_array_equal(vectors, counts.encode_passages(PASSAGES))


def test_finished_shards_are_kept_and_damaged_ones_are_not(tmp_path: Path) -> None:
    encode(tmp_path)
    before = contents(tmp_path)
    vectors = tmp_path / "vectors"
    (vectors / "manifest.json").unlink()
    (vectors / "shard-00001.npy").unlink()
    (vectors / "shard-00002.npy").write_bytes(before["shard-00002.npy"][:-64])
    (vectors / "shard-00003.npy").write_bytes(b"")
    kept = (vectors / "shard-00000.npy").stat().st_ino
    seen: list[tuple[int, int]] = []
    encode(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert contents(tmp_path) == before
    assert (vectors / "shard-00000.npy").stat().st_ino == kept
    assert (seen[0], seen[-1]) == ((16, 50), (50, 50))


def test_other_settings_throw_old_shards_away(tmp_path: Path) -> None:
    encode(tmp_path)
    before = contents(tmp_path)["shard-00000.npy"]
    encode(tmp_path, scale=2.0)
    assert contents(tmp_path)["shard-00000.npy"] != before
    encode(tmp_path, shard_size=64, storage="float16")
    assert sorted(contents(tmp_path)) == ["fingerprint.json", "manifest.json", "shard-00000.npy"]
    assert np.load(tmp_path / "vectors" / "shard-00000.npy").dtype == np.float16


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    encode(tmp_path / "one")
    seen: list[tuple[int, int]] = []
    encode(tmp_path / "two", processes=2, progress=lambda *state: seen.append(state))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert (seen[0], seen[-1]) == ((0, 50), (50, 50))
    workers = sorted(path.name for path in (tmp_path / "two/workers").iterdir())
    assert workers == ["0", "1"]


def test_workers_encode_on_gpus_of_their_own() -> None:
    assert [worker_device("cuda", n, 8) for n in range(8)] == [f"cuda:{n}" for n in range(8)]
    assert [worker_device("cuda", n, 2) for n in (2, 3)] == ["cuda:0", "cuda:1"]
    assert worker_device("cpu", 5, 0) == "cpu"


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"storage": "int8"}, "storage 'int8'"), ({"scale": 3.0e38}, "non-finite vectors")],
)
def test_what_cannot_be_encoded_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        encode(tmp_path, **changes)
    assert not (tmp_path / "vectors" / "manifest.json").exists()


def test_parts_share_the_shards_and_the_last_run_publishes_them(tmp_path: Path) -> None:
    encode(tmp_path / "one")
    shared, seen = tmp_path / "many", []
    for number in (2, 0, 1):  # hosts start as they like
        part = HostPart(number, 3)
        told = encode(shared, part=part, progress=lambda *state: seen.append(state))
        assert told is None
        assert not (shared / "vectors" / "manifest.json").exists()
    assert seen == [(0, 16), (16, 16), (0, 18), (16, 18), (18, 18), (0, 16), (16, 16)]
    before = {p.name: p.stat().st_ino for p in (shared / "vectors").glob("shard-*")}
    encode(shared)
    assert {p.name: p.stat().st_ino for p in (shared / "vectors").glob("shard-*")} == before
    assert contents(shared) == contents(tmp_path / "one")


def test_a_part_goes_on_where_it_stopped(tmp_path: Path) -> None:
    encode(tmp_path, part=HostPart(0, 2))
    (tmp_path / "vectors" / "shard-00002.npy").unlink()
    seen: list[tuple[int, int]] = []
    encode(tmp_path, part=HostPart(0, 2), progress=lambda *state: seen.append(state))
    assert seen == [(16, 32), (32, 32)]


def test_what_no_part_has_done_the_last_run_does(tmp_path: Path) -> None:
    encode(tmp_path / "one")
    encode(tmp_path / "many", part=HostPart(1, 2))
    encode(tmp_path / "many")
    assert contents(tmp_path / "many") == contents(tmp_path / "one")


def test_a_part_never_removes_what_others_may_be_writing(tmp_path: Path) -> None:
    encode(tmp_path, part=HostPart(0, 2))
    with pytest.raises(ValueError, match="holds shards of another corpus, encoder or shard size"):
        encode(tmp_path, scale=2.0, part=HostPart(1, 2))
    assert (tmp_path / "vectors" / "shard-00000.npy").is_file()


def test_more_parts_than_shards_leave_some_without_work(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    encode(tmp_path, part=HostPart(6, 9), progress=lambda *state: seen.append(state))
    assert seen == [(0, 0)]


def test_parts_are_read_strictly() -> None:
    assert HostPart.parse("0/4") == HostPart(0, 4)
    assert HostPart.parse("3/4") == HostPart(3, 4)
    for text in ("4/4", "1", "", "/", "-1/4", "1/0", "1/4/2", "a/4", "²/4"):
        with pytest.raises(ValueError, match="is not i/n with 0 <= i < n"):
            HostPart.parse(text)


def test_time_left_counts_only_what_this_run_did() -> None:
    clock = iter([100.0, 160.0, 220.0, 280.0])
    pace = Pace(lambda: next(clock))
    assert pace.left(500, 1000) == ""
    assert pace.left(501, 1000) == "8 h 19 min left"
    assert pace.left(740, 1000) == "0 h 02 min left"
    assert pace.left(1000, 1000) == ""
