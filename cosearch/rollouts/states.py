"""The newest training state of a run: models and optimisers of its learners.

A state is a folder that is written aside, synced and renamed, and only then the one before it is
removed. Every file has a checksum, which is checked before the file is used.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosearch.files.artifacts import named
from cosearch.files.durable import sync
from cosearch.files.hashes import check_hashes, hash_files
from cosearch.files.sealed import read_sealed, remove_folder, write_sealed
from cosearch.rollouts.policy import Policy, Trainer


@dataclass(frozen=True, slots=True)
class States:
    """The states of a run, in ``folder``. ``advice``: what to do about a damaged file."""

    folder: Path
    advice: str

    def write(
        self, finished: int, sums: Mapping[str, str], trainers: Mapping[str, Trainer]
    ) -> None:
        """Keep the state after ``finished`` rounds, with the checksums of the run's other files."""
        aside = self.folder / ".new"
        shutil.rmtree(aside, ignore_errors=True)
        with named(aside):
            aside.mkdir(parents=True)
            for role, trainer in trainers.items():
                trainer.save(aside / f"{role}.pt")
        for path in sorted(aside.rglob("*")):  # a trainer of several ranks leaves a folder
            sync(path)
        progress = {"finished": finished, "state": hash_files(aside), "sums": sums}
        write_sealed(aside / "progress.json", progress)
        target = self.folder / f"round_{finished:06d}"
        if target.exists():  # that of a start which is repeated
            remove_folder(target)
        aside.rename(target)
        sync(self.folder)
        for old in self._all()[:-1]:
            remove_folder(old)

    def read(self) -> dict[str, Any] | None:
        """The number of ``finished`` rounds and the ``sums`` of the newest state, or None.

        Raises ValueError naming a file of it that is missing, truncated or altered.
        """
        if not (states := self._all()):
            return None
        progress: dict[str, Any] = read_sealed(states[-1] / "progress.json", self.advice)
        check_hashes(states[-1], progress["state"], self.advice)
        return progress

    def restore(self, trainers: Mapping[str, Trainer]) -> None:
        """Put the newest state into ``trainers``, by role."""
        for role, trainer in trainers.items():
            trainer.restore(self._all()[-1] / f"{role}.pt")

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob("round_*"))


def owners(policies: Mapping[str, Policy], roles: Sequence[str]) -> dict[str, str]:
    """Role -> the first role that has the same policy, so that a shared backbone is kept once."""
    return {
        role: next(first for first in roles if policies[first] is policies[role]) for role in roles
    }


def own_trainers(policies: Mapping[str, Policy], learners: Sequence[str]) -> dict[str, Trainer]:
    """The trainer of each learner that has one of its own."""
    found = {role: policies[role].trainer for role in set(owners(policies, learners).values())}
    return {role: trainer for role, trainer in found.items() if trainer is not None}
