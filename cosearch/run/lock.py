"""What dvc.lock, which DVC writes, says of the stages of a profile."""

from collections.abc import Mapping
from hashlib import md5
from pathlib import Path
from typing import Any

from cosearch.params.reading import load_yaml

LOCK = "dvc.lock"
Entry = Mapping[str, Any]
"""What DVC recorded of a stage's last run: its command, and the hashes of what it read and made."""


def read_lock(folder: Path) -> dict[str, Entry]:
    """Stage -> its entry; empty where nothing was ever run in the profile's ``folder``."""
    path = folder / LOCK
    told = load_yaml(path.read_text("utf-8")) if path.is_file() else None
    stages: dict[str, Entry] = (told or {}).get("stages") or {}
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
