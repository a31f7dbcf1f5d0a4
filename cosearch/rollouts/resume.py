"""State that survives a kill: finished rounds, the exact training state after the last one or after
an earlier one, and the finished shards of the rounds since that state.

A run is a folder ``.runs/PROFILE/STAGE/FINGERPRINT/``, outside every output of the graph. Every
file has a checksum, which is checked before the file is used. So the same command, started again,
continues the run and ends with the same bytes, or names the file that is damaged. Rounds since the
last state are repeated: their trajectories come from the kept shards, so nothing is sampled again.
"""

import csv
import fcntl
import io
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import polars as pl

from cosearch.files.artifacts import (
    ROLLOUT_SCHEMA,
    named,
    read_json,
    write_frame,
    write_json,
    write_text,
)
from cosearch.files.hashes import check_hashes, hash_file
from cosearch.files.sealed import read_sealed, remove_folder, write_sealed
from cosearch.rollouts.policy import Policy, give_way, hand_over
from cosearch.rollouts.shards import EngineMemory, NoMemory, Shards
from cosearch.rollouts.states import States, own_trainers
from cosearch.run.origin import differences, origin

ACCEPT = "COSEARCH_ACCEPT_CHANGED_CODE"
"""If this variable is 1, a run may continue under other code or packages than it began with."""


class Finished(Protocol):
    """A finished round, joint or single-turn."""

    @property
    def number(self) -> int:
        """Its number, from 0."""

    def frame(self) -> pl.DataFrame:
        """Its rollouts, under ``ROLLOUT_SCHEMA``."""


class RunStore:
    """The folder of one run. It is a context, which holds the lock of the run's stage.

    ``notice`` says how a new run differs from the newest older one of its stage, if there is one;
    ``accepted`` lists the changes of code or packages that the user accepted. ``memory`` is what
    engines remember. A state is kept after every ``every`` rounds, and after the last one.
    """

    def __init__(
        self,
        folder: Path,
        identity: Mapping[str, Any],
        code: Mapping[str, str],
        memory: EngineMemory | None = None,
        every: int = 1,
    ) -> None:
        self.folder = folder
        self._every = every
        self.notice: str | None = None
        self.accepted: list[str] = []
        self._identity: dict[str, Any] = json.loads(json.dumps(identity))
        self._code = code
        self._memory = memory or NoMemory()
        self._learned: list[Any] = []
        self._sums: dict[str, str] = {}
        self._states = States(folder / "state", self._advice)

    def __enter__(self) -> "RunStore":
        with named(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder.parent / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._claim()
        except BlockingIOError:
            self._lock.close()
            raise ValueError(
                f"{self.folder.parent}: another process runs this stage; wait for it or stop it"
            ) from None
        except BaseException:
            self._lock.close()
            raise
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
        """Restore the last saved state into ``policies``; returns after how many rounds it was.

        Raises ValueError naming a file that is missing, truncated or altered.
        """
        if (progress := self._states.read()) is None:
            return 0
        self._sums = progress["sums"]
        self._check(self.folder, self._sums)
        give_way(policies)
        self._states.restore(own_trainers(policies, learners))
        hand_over(policies)
        for name in sorted(name for name in self._sums if name.startswith("memory/")):
            self._memory.put(read_sealed(self.folder / name, self._advice))
        return int(progress["finished"])

    def shards(self, number: int) -> Shards:
        """Finished shards of round ``number`` (from 0), after which no state is kept yet."""
        folder = self.folder / "shards" / f"round_{number + 1:06d}"
        return Shards(folder, self._memory, self._learned)

    def start(
        self, dev: Mapping[str, float], policies: Mapping[str, Policy], learners: Sequence[str]
    ) -> None:
        """Record the measures before the first round (round 0 of every curve). Keep the state that
        the run begins with where none follows right after the first round: a run that diverges
        goes back to it."""
        path = self.folder / "metrics" / "round_000.json"
        write_json(path, {"round": 0.0} | _prefixed(dev))
        self._seal(path)
        self._remember(0)
        if self._every > 1:
            self._states.write(0, self._sums, own_trainers(policies, learners))

    def save(
        self,
        done: Finished,
        metrics: Mapping[str, float],
        policies: Mapping[str, Policy],
        learners: Sequence[str],
        *,
        last: bool,
    ) -> None:
        """Record a finished round. Keep the state after it if one is due or the round is the
        ``last`` one; then the older state goes, and the shards of the rounds between."""
        finished = done.number + 1
        self.record(done, metrics)
        self._remember(finished)
        if last or finished % self._every == 0:
            self._states.write(finished, self._sums, own_trainers(policies, learners))
            shutil.rmtree(self.folder / "shards", ignore_errors=True)

    def record(self, done: Finished, metrics: Mapping[str, float]) -> None:
        """Write a round's rollouts and metrics only; the state stays that of the round before.

        A measure that is not finite, as a diverging round may have, is left out.
        """
        finished = done.number + 1
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        rollouts = self.rollouts / f"round_{finished:03d}.parquet"
        write_frame(rollouts, done.frame(), ROLLOUT_SCHEMA)
        write_json(self.folder / "metrics" / f"round_{finished:03d}.json", finite)
        self._seal(rollouts)
        self._seal(self.folder / "metrics" / f"round_{finished:03d}.json")

    def metrics(self) -> list[dict[str, float]]:
        """One row per recorded round, round 0 first."""
        return [read_json(path) for path in sorted((self.folder / "metrics").glob("round_*.json"))]

    def publish(self, target: Path, rounds: int) -> None:
        """Write rollouts and metrics to ``target``. Raises ValueError if a round is missing, or a
        file has changed since it was written."""
        self._check(self.folder, self._sums)
        rows = self.metrics()
        files = sorted(self.rollouts.glob("round_*.parquet"))
        if [row["round"] for row in rows] != list(range(rounds + 1)) or len(files) != rounds:
            raise ValueError(f"{self.folder}: {len(rows) - 1} rounds recorded, {rounds} planned")
        for path in files:
            (target / "rollouts").mkdir(parents=True, exist_ok=True)
            with named(target / "rollouts" / path.name):
                shutil.copyfile(path, target / "rollouts" / path.name)
        write_text(target / "metrics.csv", metrics_csv(rows))

    def fresh(self, name: str) -> Path:
        """An empty folder of the run, for files that are moved to their place of publication."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def discard(self) -> None:
        """Remove the run's state after its outputs are published. Its identity is kept, because the
        next run is compared with it."""
        write_json(self.folder.parent / "finished.json", self._identity)
        remove_folder(self.folder)

    @property
    def _advice(self) -> str:
        return f"put it back, or delete {self.folder} to start the run over"

    def _claim(self) -> None:
        """Bind the folder to this identity and origin. Raises ValueError if the run was begun under
        another origin, and the user did not accept the change."""
        for gone in self.folder.parent.glob(".*.gone"):
            shutil.rmtree(gone)
        now, record = origin(self._code), self.folder / "origin.json"
        kept: dict[str, Any] = {"origin": now, "accepted": []}
        if record.is_file():
            kept = read_sealed(record, self._advice)
            if changed := differences(kept["origin"], now):
                self._accept(changed)
                kept = {"origin": now, "accepted": kept["accepted"] + changed}
        else:
            self.notice = self._compare()
        self.accepted = kept["accepted"]
        write_json(self.folder / "identity.json", self._identity)
        write_sealed(record, kept)

    def _accept(self, changed: Sequence[str]) -> None:
        if os.environ.get(ACCEPT) != "1":
            raise ValueError(
                f"{self.folder}: this run was begun under other code or packages"
                f" ({'; '.join(changed)}). To go on and have it recorded, set {ACCEPT}=1;"
                f" to start over, delete that folder"
            )

    def _compare(self) -> str | None:
        """How this new run differs from the newest older one of its stage."""
        above = self.folder.parent
        older = [
            p for p in (*above.glob("*/identity.json"), above / "finished.json") if p.is_file()
        ]
        if not older:
            return None
        newest = max(older, key=lambda path: (path.stat().st_mtime_ns, str(path)))
        changed = differences(read_json(newest), self._identity)
        where = "finished" if newest.parent == above else f"kept in {newest.parent}"
        if not changed:
            return f"a new run, with inputs and parameters as in the last one ({where})"
        return f"a new run; against the last one ({where}): {'; '.join(changed)}"

    def _remember(self, number: int) -> None:
        """Keep what the engines learned since the last finished round."""
        path = self.folder / "memory" / f"round_{number:06d}.json"
        write_sealed(path, [*self._learned, *self._memory.take()])
        self._learned.clear()
        self._seal(path)

    def _seal(self, path: Path) -> None:
        self._sums[path.relative_to(self.folder).as_posix()] = hash_file(path)

    def _check(self, folder: Path, sums: Mapping[str, str]) -> None:
        check_hashes(folder, sums, self._advice)


def metrics_csv(rows: Sequence[Mapping[str, float]]) -> str:
    """CSV over the union of the rows' columns; a value that a row does not have stays empty."""
    columns = list(dict.fromkeys(name for row in reversed(rows) for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _prefixed(dev: Mapping[str, float]) -> dict[str, float]:
    return {f"dev_{name}": round(value, 9) for name, value in dev.items()}
