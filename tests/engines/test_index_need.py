"""The pre-flight at the paper's size: 21,015,324 passages of 768 dimensions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosearch.engines.retrieval.index_kinds import KINDS, IndexRecipe
from cosearch.engines.retrieval.index_need import (
    IndexNeed,
    IndexPhase,
    Room,
    check_room,
    free_memory,
    index_need,
)

GB = 10**9
SHAPE = {"rows": 21_015_324, "dimension": 768, "shard_rows": 65_536}
FLAT = IndexRecipe(
    "flat",
    shards=1,
    nlist=16_384,
    nprobe=64,
    pq_m=96,
    hnsw_m=32,
    ef_construction=80,
    ef_search=128,
    train_rows=1_048_576,
    seed=0,
)
RECALL = {"sq8": 0.991, "ivf_pq": 0.685}


def need(kind: str, **changes: Any) -> IndexNeed:
    return index_need(replace(FLAT, kind=kind, **changes), **SHAPE)


def check(kind: str, memory: int | None, disk: int | None, phase: IndexPhase = "build") -> str:
    """The complaint, empty without one."""
    try:
        check_room(need(kind), Room(memory, disk), phase=phase, recall=RECALL, **SHAPE)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("kind", "gigabytes"),
    [
        ("flat", 64.6),
        ("fp16", 32.3),
        ("sq8", 16.1),
        ("pq", 2.0),
        ("ivf_flat", 64.8),
        ("ivf_sq8", 16.4),
        ("ivf_pq", 2.2),
        ("hnsw", 70.3),
    ],
)
def test_sizes_at_wikipedia(kind: str, gigabytes: float) -> None:
    assert need(kind).bytes_file / GB == pytest.approx(gigabytes, abs=0.05)


def test_building_takes_the_growing_part_the_sample_and_a_shard() -> None:
    shard, sample = 65_536 * 768 * 4, 1_048_576 * 768 * 4
    assert need("flat").bytes_build == 2 * need("flat").bytes_file + shard
    sq8 = need("sq8")
    assert sq8.bytes_build == 2 * sq8.bytes_file + 2 * sample + shard
    assert need("flat", shards=4).bytes_build == 2 * need("flat").bytes_file // 4 + shard


def test_room_enough_is_no_complaint() -> None:
    assert check("flat", 200 * GB, 70 * GB) == ""
    assert check("flat", None, None) == ""
    assert check("flat", 65 * GB, 0, "serve") == "", "the file is there already"


def test_a_lack_of_memory_names_what_fits_with_size_and_recall() -> None:
    told = check("flat", 48 * GB, 1000 * GB)
    assert told.startswith(
        "index.kind flat: to build 21015324 vectors of 768 dimensions, "
        "memory needed 129.3 GB, free 48.0 GB; what fits: flat in 4 shards (file 64.6 GB, "
        "memory 32.5 GB), flat in 8 shards"
    )
    assert "sq8 (file 16.1 GB, memory 38.9 GB, recall 0.991)" in told
    assert "ivf_pq (file 2.2 GB, memory 11.1 GB, recall 0.685)" in told
    assert "fp16 (" not in told
    assert "hnsw" not in told


def test_serving_needs_no_disk_and_more_files_do_not_help() -> None:
    told = check("hnsw", 40 * GB, 0, "serve")
    assert "to serve" in told
    assert "memory needed 70.3 GB, free 40.0 GB; what fits: fp16 (file 32.3 GB" in told
    assert "shards" not in told
    assert "disk" not in told


def test_both_lacks_are_told_and_nothing_may_fit() -> None:
    told = check("flat", GB, GB)
    assert "memory needed 129.3 GB, free 1.0 GB and disk needed 64.6 GB, free 1.0 GB" in told
    assert told.endswith("what fits: nothing")


def test_kinds_without_their_parameters_are_not_proposed() -> None:
    bare = IndexRecipe("flat", shards=1)
    assert [kind for kind in KINDS if bare.with_kind(kind)] == ["flat", "fp16"]
    with pytest.raises(ValueError, match=r"what fits: fp16 \(file 32\.3 GB, memory 32\.3 GB\)$"):
        check_room(
            index_need(bare, **SHAPE), Room(40 * GB, None), phase="serve", recall={}, **SHAPE
        )


def test_free_memory_is_the_systems_own_account(tmp_path: Path) -> None:
    path = tmp_path / "meminfo"
    assert free_memory(path) is None
    path.write_text("MemTotal:  200 kB\nMemFree:  1 kB\nMemAvailable:   77 kB\n", "ascii")
    assert free_memory(path) == 77 * 1024
    path.write_text("MemTotal:  200 kB\n", "ascii")
    assert free_memory(path) is None


def test_room_here_is_told_for_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    room = Room.here(tmp_path / "a" / "b")
    assert room.disk is not None
    assert room.disk > 0
    assert room.memory is None or room.memory > 0
