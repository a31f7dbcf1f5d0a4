"""dvc.lock holds results of the code, settings and models that are here now."""

import csv
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cosearch.files.artifacts import read_json
from cosearch.files.model_record import read_record, record_models
from cosearch.run.identity import identity_of, instances
from tests.settings import ROOT, tiny

IDENTITY = "artifacts/tiny/identity/"
APART = ("base_models", "identity")
"""Entries without an identity."""
PENDING = ROOT / "artifacts/tiny/pending.csv"
"""Results that are known to be older than the project; columns row, reason, commit."""
LINES = 42
"""An entry's lines in the lock, at most, on average."""


def faults(
    entries: Mapping[str, Any], now: Mapping[str, str], pending: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """What is wrong with a lock. ``now``: instance -> the MD5 of its identity."""
    found, stale = [], set()
    for name, entry in entries.items():
        if name in APART:
            continue
        held = {dep["path"]: dep["md5"] for dep in entry.get("deps", ())}
        own = held.get(f"{IDENTITY}{name}.json")
        if name not in now:
            found.append(f"{name}: no such instance")
        elif own is None:
            found.append(f"{name}: depends on no identity of its own")
        elif own != now[name]:
            stale.add(name)
    found += [f"{name}: its identity has changed since" for name in sorted(stale - pending.keys())]
    for name, row in pending.items():
        if name not in entries:
            found.append(f"pending {name}: in no entry of the lock")
        elif name not in stale:
            found.append(f"pending {name}: is not stale")
        if not (row["reason"] and row["commit"]):
            found.append(f"pending {name}: without a reason or a commit")
    return found


def entry(name: str, md5: str) -> dict[str, Any]:
    return {"deps": [{"path": f"{IDENTITY}{name}.json", "md5": md5}]}


NAMED = {"reason": "the price of one row", "commit": "0123abc"}


@pytest.mark.parametrize(
    ("entries", "pending", "words"),
    [
        ({"data": entry("data", "new"), "base_models": {}, "identity": {}}, {}, []),
        ({"data": entry("data", "old")}, {}, ["data: its identity has changed since"]),
        ({"data": entry("data", "old")}, {"data": NAMED}, []),
        ({"data": entry("data", "new")}, {"data": NAMED}, ["pending data: is not stale"]),
        ({}, {"data": NAMED}, ["pending data: in no entry of the lock"]),
        ({"data": entry("encode", "new")}, {}, ["data: depends on no identity of its own"]),
        ({"data": {}}, {}, ["data: depends on no identity of its own"]),
        ({"train@gone-0": entry("train@gone-0", "new")}, {}, ["train@gone-0: no such instance"]),
        (
            {"data": entry("data", "old")},
            {"data": NAMED | {"reason": ""}},
            ["pending data: without a reason or a commit"],
        ),
    ],
)
def test_faults_of_a_lock_are_found(
    entries: dict[str, Any], pending: dict[str, dict[str, str]], words: list[str]
) -> None:
    assert faults(entries, {"data": "new", "encode": "new"}, pending) == words


def test_the_lock_is_of_this_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    settings = tiny()
    every = (identity_of(settings, name, axes) for name, axes in instances(settings))
    now = {one.stage: hashlib.md5(one.text().encode()).hexdigest() for one in every}
    lock = yaml.load((ROOT / "dvc.lock").read_text("utf-8"), yaml.CSafeLoader)
    assert faults(lock["stages"], now, read_pending()) == []


def read_pending() -> dict[str, dict[str, str]]:
    if not PENDING.is_file():
        return {}
    with PENDING.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        assert reader.fieldnames == ["row", "reason", "commit"]
        rows = list(reader)
    assert len({row["row"] for row in rows}) == len(rows)
    return {row["row"]: row for row in rows}


def test_the_lock_is_short() -> None:
    lines = (ROOT / "dvc.lock").read_text("utf-8").splitlines()
    entries = [line for line in lines if line.startswith("  ") and line[2] != " "]
    assert len(lines) / len(entries) <= LINES


def test_the_record_of_the_shipped_models_is_theirs(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/tiny").symlink_to(ROOT / "models/tiny")
    found = record_models("tiny", tiny().model_folders(), tmp_path)
    assert found == read_record("tiny", ROOT)
    assert read_json(tmp_path / "models/tiny.json") == found
