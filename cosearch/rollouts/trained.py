"""The record of a variant's training: where its models are, and whether the run diverged."""

from dataclasses import dataclass
from pathlib import Path

from cosearch.files.artifacts import read_json
from cosearch.files.hashes import check_hashes


@dataclass(frozen=True, slots=True)
class Diverged:
    """Why a run stopped in round ``round`` (from 1)."""

    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Trained:
    """What a variant's training left: model folder of each role, rounds planned, and why it stopped
    early, if it did."""

    models: dict[str, str]
    rounds: int
    diverged: Diverged | None


def read_trained(target: Path) -> Trained:
    """The record of a trained variant. Raises ValueError if a model file has changed since it was
    written."""
    record = read_json(target / "trained.json")
    models = {name: s for name, s in record["files"].items() if not name.startswith("rollouts/")}
    check_hashes(target, models, "train the variant again")
    diverged = record["diverged"] and Diverged(**record["diverged"])
    return Trained(record["models"], record["rounds"], diverged)
