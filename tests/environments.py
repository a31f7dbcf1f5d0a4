"""Environments of their own for packages that the project does not depend on."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def pip(*words: str) -> None:
    """Run pip; its errors are the message of the failure."""
    command = [sys.executable, "-m", "pip", "-q", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def bare_environment(folder: Path, *words: str) -> Path:
    """The Python of a new environment into which ``pip install words`` has run."""
    venv.create(folder)
    python = folder / "bin/python"
    pip("--python", str(python), "install", *words)
    return python


def environment_beside(folder: Path, *words: str) -> Path:
    """As ``bare_environment``, but it finds all packages of these tests too, in their versions.

    Nothing that is installed already is fetched, and the environment of these tests stays as it is.
    """
    bases = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", vars=bases))
    site.mkdir(parents=True)
    (site / "project.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return bare_environment(folder, "-c", str(ROOT / "constraints-cpu.txt"), *words)
