"""A clone of the project as a newcomer has it, at sizes that end in minutes.

The clone is a git repository whose one commit holds the project's files with a params.yaml that is
cut down. Its ``.venv`` is the environment of the tests, so that make installs nothing into it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dvc.utils.serialize import modify_yaml

from tests.pipeline.project import ROOT, shrink

CORE = ("retrieval_only", "fixed_ranker", "cosearch", "oracle")
"""The core rows of the clone; the last one trains nothing."""
MADE_BY_RUNS = ("dvc.lock", "artifacts")
"""What a newcomer's own runs write; the recorded results are of other sizes."""
SHELL = ("PATH", "HOME", "LANG", "TMPDIR", "UV_FIND_LINKS", "PIP_FIND_LINKS", "CI")
"""Variables of the tests' shell that the newcomer's shell has too."""
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "newcomer"), ("EMAIL", "newcomer@example.org"))
}


@dataclass(frozen=True)
class Clone:
    """A git repository in ``folder``. ``extra`` is added to the shell's variables."""

    folder: Path
    extra: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path, **extra: str) -> "Clone":
        """Copy the files that git tracks, as the working tree has them, and commit them."""
        clone = cls(folder, extra)
        for name in tracked():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
        with modify_yaml(folder / "params.yaml") as params:
            make_small(params)
        clone.borrow_environment()
        clone.run("git", "init", "-q")
        clone.run("python", "-m", "cosearch", "rows")
        clone.commit("All files")
        return clone

    def borrow_environment(self) -> None:
        """Put the environment of the tests where make looks for the clone's own."""
        own, venv = Path(sys.prefix), self.folder / ".venv"
        venv.mkdir()
        for name in ("bin", "lib"):
            (venv / name).symlink_to(own / name)
        if (own / "pyvenv.cfg").is_file():
            shutil.copyfile(own / "pyvenv.cfg", venv / "pyvenv.cfg")
        (venv / ".stamp-cpu-dev").touch()

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder; one that fails ends the test with what it printed."""
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment(), capture_output=True, text=True
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(words)}\n{done.stdout}\n{done.stderr}")
        return done

    def tell(self, *words: str) -> str:
        """What a command prints on standard output."""
        return self.run(*words).stdout

    def environment(self) -> dict[str, str]:
        """A shell in which ``.venv`` is active and the code is the clone's."""
        kept = {name: os.environ[name] for name in SHELL if name in os.environ}
        path = f"{self.folder / '.venv/bin'}:{kept['PATH']}"
        code = {"PYTHONPATH": str(self.folder), "DVC_NO_ANALYTICS": "1", "OMP_NUM_THREADS": "1"}
        return kept | AUTHOR | code | {"PATH": path} | dict(self.extra)

    def commit(self, message: str) -> None:
        """Record every change in git."""
        self.run("git", "add", "-A")
        self.run("git", "commit", "-q", "-m", message)

    def changes(self) -> list[str]:
        """The lines of ``git status``, untracked files included."""
        return self.tell("git", "status", "--porcelain", "--untracked-files=all").splitlines()


def tracked() -> list[str]:
    """Files of the project, those not yet added to git included, less the recorded results and the
    links that make has put into profiles."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    told = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    files = (name for name in told.split("\0") if name and (ROOT / name).exists())
    names = (name for name in files if not (ROOT / name).is_symlink())
    return [name for name in names if name.split("/")[0] not in MADE_BY_RUNS]


def make_small(params: dict[str, Any]) -> None:
    """A few questions, one round, and four core rows; everything else as it is."""
    shrink(params)
    tiny = params["profiles"]["tiny"]
    tiny["train"]["rounds"] = tiny["fixed_ranker"]["rounds"] = 1
    for name, row in params["rows"].items():
        row["part"] = "core" if name in CORE else "more"
        row.pop("grid", None)
