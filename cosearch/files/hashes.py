"""SHA-256 hashes of files and folders. They identify data, models and indexes."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


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
            digest.update(f"{name.as_posix()}\0{hash_file(path)}\n".encode())
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
