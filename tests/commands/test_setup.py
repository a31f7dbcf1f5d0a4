"""Which Python `make setup` takes, and what it says where there is none."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

from cosearch.commands.doctor import PYTHON

ROOT = Path(__file__).parents[2]


def make_venv(folder: Path, *pythons: str) -> subprocess.CompletedProcess[str]:
    """Run the rule for .venv in an environment in which nothing is on the PATH."""
    make = shutil.which("make")
    assert make is not None
    environment = {name: v for name, v in os.environ.items() if not name.startswith("MAKE")}
    environment |= {"PATH": str(folder), "UV_FIND_LINKS": "nowhere", "MFLAGS": ""}
    words = [
        make,
        f"VENV={folder}/.venv",
        f"PYTHON={' '.join(pythons)}",
        f"{folder}/.venv/bin/python",
    ]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_the_first_python_that_fits_is_taken_and_named(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\nexit 1\n")  # as a Python of another version answers
    old.chmod(0o755)
    done = make_venv(tmp_path, "absent", str(old), sys.executable)
    assert done.returncode == 0, done.stderr
    (said,) = done.stdout.splitlines()
    version = ".".join(map(str, sys.version_info[:3]))
    assert said == f"{tmp_path}/.venv: made with Python {version}, which is {sys.executable}"
    made = [tmp_path / ".venv/bin/python", "-c", "import sys; print(sys.version_info[:2])"]
    told = subprocess.run(made, capture_output=True, text=True, check=True).stdout
    assert PYTHON[0] <= ast.literal_eval(told) < PYTHON[1]


def test_without_python_and_uv_one_line_says_what_to_do(tmp_path: Path) -> None:
    done = make_venv(tmp_path, "absent", "python3.10")
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1 and "no Python 3.11 or 3.12" in said[0] and "absent python3.10" in said[0]
    assert not (tmp_path / ".venv").exists()
