"""The record of a profile's models: ``models/PROFILE.json``, folder -> hash.

It is written when models are made or fetched. Identities read it in place of the models, which are
large, and a stage that starts from a model holds the folder against it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cosearch.files.artifacts import read_json, write_json
from cosearch.files.hashes import hash_folder

UNRECORDED = "not recorded"


@dataclass(frozen=True)
class ModelRecord:
    """``hashes``: folder -> hash, as they were when the record was written."""

    path: Path
    hashes: Mapping[str, str]

    @classmethod
    def of(cls, profile: str, root: Path = Path()) -> "ModelRecord":
        """The record of a profile; an empty one where there is none."""
        path = root / "models" / f"{profile}.json"
        return cls(path, read_json(path) if path.is_file() else {})

    def hash(self, folder: str) -> str:
        """The recorded hash of a folder, or ``UNRECORDED``."""
        return self.hashes.get(folder, UNRECORDED)


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
    write_json(root / "models" / f"{profile}.json", hashes)
    return hashes
