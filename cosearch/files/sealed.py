"""Files of a run's state: sealed with a checksum, put in place and taken away in one step."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from cosearch.files.artifacts import write_text


def write_sealed(path: Path, value: Any) -> None:
    """Write ``value`` as JSON below a line with its SHA-256. Floats come back exactly."""
    body = json.dumps(value, separators=(",", ":"))
    write_text(path, f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}\n")


def read_sealed(path: Path, advice: str) -> Any:
    """Read what ``write_sealed`` wrote. Raises ValueError, ending in ``advice``, for a truncated or
    altered file."""
    try:
        seal, body = path.read_bytes().split(b"\n", 1)
    except (OSError, ValueError):
        seal = body = b""
    if not body.endswith(b"\n") or hashlib.sha256(body[:-1]).hexdigest().encode() != seal:
        raise ValueError(f"{path}: truncated or altered; {advice}")
    return json.loads(body)


def remove_folder(folder: Path) -> None:
    """Remove ``folder`` so that it is never seen in part: it is renamed first."""
    gone = folder.with_name(f".{folder.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    folder.replace(gone)
    shutil.rmtree(gone)
