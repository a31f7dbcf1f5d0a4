"""Names of contents: what data, models and indexes are recognised by."""

import hashlib
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
