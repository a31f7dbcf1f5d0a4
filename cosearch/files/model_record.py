"""The record of a profile's models: ``models/PROFILE.json``, folder -> hash.

It is written when models are made or fetched. Identities read it in place of the models, which are
large, and a stage that starts from a model holds the folder against it.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from cosearch.files.artifacts import read_json, write_json
from cosearch.files.hashes import hash_folder

UNRECORDED = "not recorded"
"""Stands in an identity for the hash of a folder that has no record."""


def read_record(profile: str, root: Path = Path()) -> dict[str, str]:
    """Folder -> hash, as they were when the record was written; empty where there is no record."""
    path = record_path(profile, root)
    record: dict[str, str] = read_json(path) if path.is_file() else {}
    return record


def record_path(profile: str, root: Path) -> Path:
    """The file of a profile's record."""
    return root / "models" / f"{profile}.json"


def check_models(models: Mapping[str, str]) -> None:
    """Raises ValueError for a model folder that is not as it was recorded; folder -> hash."""
    for folder, recorded in models.items():
        found = hash_folder(Path(folder))
        if recorded != found:
            raise ValueError(
                f"{folder}: its hash is {found[:12]}, its record says {recorded[:12]}; run"
                " `python -m cosearch models --profile PROFILE` to record it"
            )


def record_models(profile: str, folders: Iterable[str], root: Path = Path()) -> dict[str, str]:
    """Record every folder that is there, and leave out the others; returns what was recorded."""
    there = sorted({folder for folder in folders if (root / folder / "config.json").is_file()})
    hashes = {folder: hash_folder(root / folder) for folder in there}
    write_json(record_path(profile, root), hashes)
    return hashes
