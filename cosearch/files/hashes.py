"""SHA-256 hashes of files and folders. They identify data, models and indexes.

An index and a model of the paper's size take minutes to hash, and every stage asks for them. So
the hash of a large file is recorded with the file's stamps, and read from there as long as they
stay. COSEARCH_VERIFY=1 in the environment has every file read in full.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RECORDED = Path(".runs") / "hashes"
"""Folder of recorded hashes, one file each. Without it, files are hashed again."""
LARGE = 64 * 2**20
"""Bytes from which a file's hash is recorded."""


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def known_hash(path: Path) -> str:
    """SHA-256 of a file; of a large one whose path, size, inode and time of change are as they were
    when it was last hashed, the recorded one."""
    stat = path.stat()
    if stat.st_size < LARGE:
        return hash_file(path)
    place = str(path.resolve())
    stamps = {"path": place, "bytes": stat.st_size, "inode": stat.st_ino, "ns": stat.st_mtime_ns}
    record = RECORDED / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.json"
    known = None if os.environ.get("COSEARCH_VERIFY") == "1" else _read_record(record)
    if known is not None and known.get("stamps") == stamps:
        return str(known["sha256"])
    sha256 = hash_file(path)
    # Under a name of its own: several processes may hash one file. A torn record is hashed again.
    aside = record.with_suffix(f".{os.getpid()}")
    RECORDED.mkdir(parents=True, exist_ok=True)
    aside.write_text(json.dumps({"stamps": stamps, "sha256": sha256}), "utf-8")
    aside.replace(record)
    return sha256


def _read_record(path: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return record


def hash_folder(folder: Path) -> str:
    """SHA-256 over names and contents of all visible files below ``folder``, in name order.

    Raises ValueError where there is no such folder.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder)
        if not any(part.startswith(".") for part in name.parts):
            digest.update(f"{name.as_posix()}\0{known_hash(path)}\n".encode())
    return digest.hexdigest()


def hash_path(path: Path) -> str:
    """SHA-256 of a file, or of all files of a folder."""
    return hash_folder(path) if path.is_dir() else hash_file(path)


def hash_folders(folders: Iterable[str]) -> dict[str, str]:
    """``hash_folder`` of each folder, by its path."""
    return {folder: hash_folder(Path(folder)) for folder in sorted(set(folders))}


def hash_files(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below ``folder``, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hash_file(path) for path in files}


def check_hashes(folder: Path, sums: Mapping[str, str], advice: str) -> None:
    """Compare the files of ``sums`` with their hashes.

    Raises ValueError that ends in ``advice`` if a file is missing or has another hash.
    """
    for name, sum in sums.items():
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path}: missing; {advice}")
        if hash_file(path) != sum:
            raise ValueError(f"{path}: truncated or altered; {advice}")
