"""Files of the state of a run. Each carries a checksum, and a folder is removed in one step."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from cosearch.files.artifacts import write_text


def write_sealed(path: Path, value: Any) -> None:
    """Write ``value`` as JSON below a line with its SHA-256. ``read_sealed`` returns equal
    floats."""
    body = json.dumps(value, separators=(",", ":"))
    write_text(path, f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}\n")


def read_sealed(path: Path, advice: str) -> Any:
    """Read a file of ``write_sealed``.

    Raises ValueError that ends in ``advice`` if the file is truncated or altered.
    """
    try:
        seal, body = path.read_bytes().split(b"\n", 1)
    except (OSError, ValueError):
        seal = body = b""
    if not body.endswith(b"\n") or hashlib.sha256(body[:-1]).hexdigest().encode() != seal:
        raise ValueError(f"{path}: truncated or altered; {advice}")
    return json.loads(body)


def remove_folder(folder: Path) -> None:
    """Rename ``folder`` and then remove it, so that no reader meets a part of it."""
    gone = folder.with_name(f".{folder.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    folder.replace(gone)
    shutil.rmtree(gone)
