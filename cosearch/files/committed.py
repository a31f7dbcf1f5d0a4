"""Outputs that git keeps while DVC makes them anew.

DVC removes an output before the command of its stage. For a file that git tracks, a stage that is
stopped would thus leave a change behind that nobody made.
"""

import subprocess
from contextlib import suppress
from pathlib import Path

from cosearch.files.artifacts import write_bytes


def restore_committed(path: Path) -> None:
    """Bring back the file ``path``, relative to the current folder, as git holds it. A file that is
    there stays, and one that git does not hold is left out."""
    if path.exists():
        return
    show = ["git", "cat-file", "blob", f":./{path.as_posix()}"]
    with suppress(FileNotFoundError):  # no git on this machine
        found = subprocess.run(show, capture_output=True, check=False)
        if not found.returncode:
            write_bytes(path, found.stdout)
