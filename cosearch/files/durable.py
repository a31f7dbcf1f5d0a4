"""Writes files so that a crash leaves either the old or the new content, and never a part."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with a path beside ``path``, sync that file and rename it to ``path``.

    Creates the folders above ``path``. If anything raises, removes the unfinished file.
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


def replace_folder(source: Path, target: Path) -> None:
    """Put the folder ``source`` in the place of ``target``, of which only the last name is new.

    On one disk this renames and copies nothing. From another disk ``source`` is copied beside
    ``target`` first. What stood at ``target`` is removed last: if anything raises, it is there
    again, and so is ``source``.
    """
    _sync_all(source)
    try:
        source.replace(target)
    except OSError as error:
        if error.errno == errno.EXDEV:
            _swap(_copied(source, target.with_name(f".{target.name}.copy")), target)
            shutil.rmtree(source)
        elif target.is_dir():
            _swap(source, target)
        else:
            raise
    sync(target.parent)


def _copied(source: Path, copy: Path) -> Path:
    """``copy``, a copy of the folder ``source`` that is on the disk in full."""
    shutil.rmtree(copy, ignore_errors=True)
    try:
        shutil.copytree(source, copy)
        _sync_all(copy)
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise
    return copy


def _swap(ready: Path, target: Path) -> None:
    """Rename ``ready``, on the same disk, to ``target``, which may be there."""
    old = target.with_name(f".{target.name}.old")
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
        target.replace(old)
    try:
        ready.replace(target)
    except BaseException:
        if old.exists():
            old.replace(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _sync_all(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        sync(path)


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
