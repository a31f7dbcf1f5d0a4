"""What dvc.lock, which DVC writes, says of the stages of a profile."""

import json
from collections.abc import Iterable, Mapping
from hashlib import file_digest, md5
from pathlib import Path
from typing import Any

import yaml

from cosearch.params.reading import load_yaml

LOCK = "dvc.lock"
Entry = Mapping[str, Any]
"""What DVC recorded of a stage's last run: its command, and the hashes of what it read and made."""
APART = ("base_models", "identity")
"""Stages whose outputs are told by those of the others: models by hash, and identities."""


def read_lock(folder: Path) -> dict[str, Entry]:
    """Stage -> its entry; empty where nothing was ever run in the profile's ``folder``."""
    path = folder / LOCK
    return parse_lock(path.read_bytes(), path.as_posix()) if path.is_file() else {}


def parse_lock(text: bytes, name: str) -> dict[str, Entry]:
    """Stage -> its entry. Raises ValueError, which names the lock, where ``text`` is none."""
    try:
        told = load_yaml(text.decode("utf-8"))
        stages: dict[str, Entry] = (told or {}).get("stages") or {}
    except (yaml.YAMLError, AttributeError):
        raise ValueError(f"{name}: no lock of DVC; restore it with git") from None
    return stages


def has_outputs(entry: Entry) -> bool:
    """Whether all outputs of a stage are there."""
    return all(Path(one["path"]).exists() for one in entry.get("outs", ()))


def hashes_in(entry: Entry, kind: str) -> dict[str, str | None]:
    """Path -> hash of what a stage read (``deps``) or made (``outs``)."""
    return {one["path"]: one.get("md5") for one in entry.get(kind, ())}


def is_of(entry: Entry, identity: Path) -> bool:
    """Whether a stage last ran under its file ``identity`` as it is now."""
    recorded = hashes_in(entry, "deps")
    found = md5(identity.read_bytes()).hexdigest() if identity.is_file() else None
    return found is not None and recorded.get(identity.as_posix()) == found


def needed_by(entries: Mapping[str, Entry], target: str) -> list[str]:
    """``target`` and every stage that it rests on, but for those that write identities and base
    models."""
    wanted, found = [target], set()
    while wanted:
        name = wanted.pop()
        found.add(name)
        read = hashes_in(entries[name], "deps")
        for other, entry in entries.items():
            made = hashes_in(entry, "outs")
            if other not in found and other not in APART and _meet(read, made):
                wanted.append(other)
    return sorted(found)


def _meet(read: Iterable[str], made: Iterable[str]) -> bool:
    return any(
        f"{a}/".startswith(f"{b}/") or f"{b}/".startswith(f"{a}/") for a in read for b in made
    )


def output_hash(path: Path) -> str:
    """The MD5 by which DVC knows a file, or a folder: that of the list of its files."""
    if not path.is_dir():
        return _md5(path)
    files = sorted(one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file())
    listed = [{"md5": _md5(path / name), "relpath": name} for name in files]
    return f"{md5(json.dumps(listed).encode()).hexdigest()}.dir"


def _md5(path: Path) -> str:
    with path.open("rb") as handle:
        return file_digest(handle, "md5").hexdigest()
