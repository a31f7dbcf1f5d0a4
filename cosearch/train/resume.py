"""State that survives a kill: finished rounds and the exact training state after the last one.

A run lives in ``.runs/STAGE/FINGERPRINT/``, outside every output of the graph. A new state is
written aside and renamed; the one before goes only then. So the same command, started again, goes
on after the last finished round and ends with the same bytes.
"""

import csv
import fcntl
import io
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import polars as pl

from cosearch.artifacts import ROLLOUT_SCHEMA, read_json, write_frame, write_json, write_text
from cosearch.train.policy import Policy


class Finished(Protocol):
    """A finished round, joint or single-turn."""

    @property
    def number(self) -> int:
        """Its number, from 0."""

    def frame(self) -> pl.DataFrame:
        """Its rollouts, under ``ROLLOUT_SCHEMA``."""


class RunStore:
    """The folder of one run. Use as a context: it holds the run's lock."""

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        self._identity = dict(identity)

    def __enter__(self) -> "RunStore":
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder.parent / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"{self.folder.parent}: another process runs this stage; wait for it or stop it"
            ) from None
        write_json(self.folder / "identity.json", self._identity)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.close()

    @property
    def rollouts(self) -> Path:
        """Rollout files of the finished rounds."""
        return self.folder / "rollouts"

    def resume(self, policies: Mapping[str, Policy], learners: Sequence[str]) -> int:
        """Restore the last saved state into ``policies``; returns how many rounds are finished."""
        states = sorted((self.folder / "state").glob("round_*"))
        if not states:
            return 0
        for role in set(owners(policies, learners).values()):
            trainer = policies[role].trainer
            assert trainer is not None
            trainer.restore(states[-1] / f"{role}.pt")
            policies[role].hand_over()
        return int(read_json(states[-1] / "progress.json")["finished"])

    def start(self, dev: Mapping[str, float]) -> None:
        """Record the measures before the first round (round 0 of every curve)."""
        write_json(self.folder / "metrics" / "round_000.json", {"round": 0.0} | _prefixed(dev))

    def save(
        self,
        done: Finished,
        metrics: Mapping[str, float],
        policies: Mapping[str, Policy],
        learners: Sequence[str],
    ) -> None:
        """Record a finished round and the state after it; the state before it goes last."""
        finished = done.number + 1
        self.record(done, metrics)
        aside = self.folder / "state" / ".new"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        for role in set(owners(policies, learners).values()):
            trainer = policies[role].trainer
            assert trainer is not None
            trainer.save(aside / f"{role}.pt")
        write_json(aside / "progress.json", {"finished": finished})
        for path in aside.iterdir():
            with path.open("rb") as handle:
                os.fsync(handle.fileno())
        aside.rename(self.folder / "state" / f"round_{finished:06d}")
        for old in sorted((self.folder / "state").glob("round_*"))[:-1]:
            shutil.rmtree(old)

    def record(self, done: Finished, metrics: Mapping[str, float]) -> None:
        """Write a round's rollouts and metrics alone; the state stays that of the round before.

        A measure that is not finite, as a diverging round may have, is left out.
        """
        finished = done.number + 1
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        write_frame(self.rollouts / f"round_{finished:03d}.parquet", done.frame(), ROLLOUT_SCHEMA)
        write_json(self.folder / "metrics" / f"round_{finished:03d}.json", finite)

    def metrics(self) -> list[dict[str, float]]:
        """One row per recorded round, round 0 first."""
        return [read_json(path) for path in sorted((self.folder / "metrics").glob("round_*.json"))]

    def publish(self, target: Path, rounds: int) -> None:
        """Write rollouts and metrics to ``target``. Raises ValueError if a round is missing."""
        rows = self.metrics()
        if [row["round"] for row in rows] != list(range(rounds + 1)):
            raise ValueError(f"{self.folder}: {len(rows) - 1} rounds recorded, {rounds} planned")
        for path in sorted(self.rollouts.glob("round_*.parquet")):
            (target / "rollouts").mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / "rollouts" / path.name)
        write_text(target / "metrics.csv", metrics_csv(rows))

    def discard(self) -> None:
        """Remove the run's state once its outputs are published."""
        shutil.rmtree(self.folder)


def owners(policies: Mapping[str, Policy], roles: Sequence[str]) -> dict[str, str]:
    """Role -> the first role that has the same policy; a shared backbone is kept once."""
    return {
        role: next(first for first in roles if policies[first] is policies[role]) for role in roles
    }


def metrics_csv(rows: Sequence[Mapping[str, float]]) -> str:
    """CSV over the union of columns, in order of first appearance; absent values stay empty."""
    columns = list(dict.fromkeys(name for row in reversed(rows) for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _prefixed(dev: Mapping[str, float]) -> dict[str, float]:
    return {f"dev_{name}": round(value, 9) for name, value in dev.items()}
