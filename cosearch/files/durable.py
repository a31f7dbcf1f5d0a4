"""Files that survive a kill: written aside, synced and renamed, so nobody meets half of one."""

import os
from collections.abc import Callable
from pathlib import Path


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with a path beside ``path``, sync it and rename it into place.

    Folders above ``path`` are made. Whatever is raised, nothing half-written stays.
    """
    aside = path.with_name(f".{path.name}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        write(aside)
        sync(aside)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
