from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from flows.lockfile import entry_names, lock_path, order_entries, ordered_locks, write_lock

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "dvc.lock").read_text("utf-8")


def test_the_entries_of_the_recorded_lock_are_its_stages() -> None:
    assert entry_names(LOCK) == list(yaml.safe_load(LOCK)["stages"])


@given(st.permutations(entry_names(LOCK)))
def test_any_order_holds_the_same_record(order: list[str]) -> None:
    moved = order_entries(LOCK, order)
    assert entry_names(moved) == order
    assert sorted(moved.splitlines()) == sorted(LOCK.splitlines())
    assert order_entries(moved, entry_names(LOCK)) == LOCK


def test_moved_entries_keep_what_they_say() -> None:
    moved = order_entries(LOCK, entry_names(LOCK)[::-1])
    assert yaml.safe_load(moved) == yaml.safe_load(LOCK)


def test_what_stands_around_the_entries_stays() -> None:
    text = (
        "schema: '2.0'\nstages:\n  b:\n    cmd: |\n      x:\n  'a':\n    cmd: y\ndatasets:\n- c\n"
    )
    assert order_entries(text, ["a", "b"]) == (
        "schema: '2.0'\nstages:\n  'a':\n    cmd: y\n  b:\n    cmd: |\n      x:\ndatasets:\n- c\n"
    )


@pytest.mark.parametrize("text", ["", "schema: '2.0'\n", "schema: '2.0'\nstages: {}\n"])
def test_a_lock_without_entries_is_left_alone(text: str) -> None:
    assert entry_names(text) == []
    assert order_entries(text, ["a"]) == text


def test_a_lock_lies_beside_its_graph() -> None:
    assert lock_path("train@a-0") == Path("dvc.lock")
    assert lock_path("profiles/mini/dvc.yaml:train@a-0") == Path("profiles/mini/dvc.lock")


def test_a_written_lock_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_lock(tmp_path / "dvc.lock", LOCK)
    assert [path.name for path in tmp_path.iterdir()] == ["dvc.lock"]
    assert (tmp_path / "dvc.lock").read_text("utf-8") == LOCK


def lock(*names: str) -> str:
    """A lock with entries of these names."""
    return "stages:\n" + "".join(f"  {name}:\n    cmd: x\n" for name in names)


def test_an_identity_that_the_plan_made_takes_the_place_of_a_plain_run(tmp_path: Path) -> None:
    """Entries that a plain run finds in the lock keep their places; the plan adds one more."""
    path = tmp_path / "dvc.lock"
    for old, wanted in (("", "shipped identity data"), ("data ", "data shipped identity")):
        path.write_text(lock(*old.split()))
        order = [f"{tmp_path}/dvc.yaml:{name}" for name in ("shipped", "identity", "data")]
        with ordered_locks(order):
            path.write_text(lock(*old.split(), "identity", "shipped", *([] if old else ["data"])))
        assert entry_names(path.read_text()) == wanted.split()
