"""A second disk: a folder on another file system than the tests' own."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
"""The file system that Linux keeps in memory."""


@contextmanager
def second_disk(first: Path) -> Iterator[Path]:
    """A new folder on another disk than ``first``; skips the test where there is none."""
    if not (os.access(MEMORY, os.W_OK) and MEMORY.stat().st_dev != first.stat().st_dev):
        pytest.skip(f"{MEMORY} is no other disk than {first}")
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)
