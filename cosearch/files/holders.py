"""Results as someone else holds them: a revision of this project in git, or another folder."""

import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Holder(Protocol):
    """A place that holds the project's files; paths are relative to the project's root."""

    @property
    def name(self) -> str:
        """What a reader calls it."""

    def read(self, path: Path) -> bytes | None:
        """The bytes of a file, or None where it holds no such file."""

    def below(self, folder: Path) -> list[Path]:
        """All files below a folder, in the order of their names; none where there is no folder."""


@dataclass(frozen=True, slots=True)
class HeldRevision:
    """A revision of the git repository around the current folder."""

    name: str

    def read(self, path: Path) -> bytes | None:
        """The file as git holds it."""
        return _git("cat-file", "blob", f"{self.name}:./{path.as_posix()}")

    def below(self, folder: Path) -> list[Path]:
        """The files that git holds below ``folder``."""
        found = _git("ls-tree", "-rz", "--name-only", self.name, f"{folder.as_posix()}/")
        return sorted(Path(name) for name in (found or b"").decode("utf-8").split("\0") if name)


@dataclass(frozen=True, slots=True)
class HeldFolder:
    """The root of a project on this machine's disk."""

    root: Path

    @property
    def name(self) -> str:
        """The folder as it was named."""
        return self.root.as_posix()

    def read(self, path: Path) -> bytes | None:
        """The file as it lies there."""
        place = self.root / path
        return place.read_bytes() if place.is_file() else None

    def below(self, folder: Path) -> list[Path]:
        """The files that lie below ``folder``."""
        found = (self.root / folder).rglob("*")
        return sorted(path.relative_to(self.root) for path in found if path.is_file())


def holder_of(against: str) -> Holder:
    """The folder ``against``, if there is one, else the revision of that name.

    Raises ValueError where it is neither.
    """
    if Path(against).is_dir():
        return HeldFolder(Path(against))
    if _git("rev-parse", "--verify", "--quiet", f"{against}^{{commit}}") is None:
        raise ValueError(
            f"--against {against}: no folder, and no revision of a git repository here"
        )
    return HeldRevision(against)


def _git(*words: str) -> bytes | None:
    """What a command of git says; None where it fails, and on a machine without git."""
    with suppress(FileNotFoundError):
        done = subprocess.run(["git", *words], capture_output=True, check=False)
        if not done.returncode:
            return done.stdout
    return None
