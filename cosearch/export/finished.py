"""A row that was trained and evaluated here, as its identities and its outputs tell of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosearch.files.artifacts import SKIPPED, Paths, read_json
from cosearch.files.hashes import check_hashes, hash_file
from cosearch.params.derived import FIXED_RANKER
from cosearch.params.rows import Training
from cosearch.params.rows_file import profile_folders, row_command
from cosearch.params.settings import Settings
from cosearch.rollouts.pipelines import roles_under
from cosearch.rollouts.trained import read_trained
from cosearch.run.lock import LOCK, hashes_in, is_of, read_lock
from cosearch.statistics.results import Result, read_results
from cosearch.tables.evidence import withheld

STAGES = ("train", "evaluate")
"""The stages whose identities say how a row came about."""


@dataclass(frozen=True)
class FinishedRow:
    """A row at a seed, such as ``cosearch-0``.

    ``told``: stage -> the settings of its identity, which are those that made the outputs.
    ``seals``: stage -> SHA-256 of its identity file. ``models``: role -> its trained folder;
    ``bases``: role -> the folder that its training started from, and the hash of that folder.
    """

    name: str
    profile: str
    label: str
    told: Mapping[str, Mapping[str, Any]]
    seals: Mapping[str, str]
    models: Mapping[str, Path]
    bases: Mapping[str, tuple[str, str]]
    rollouts: tuple[Path, ...]
    evaluated: tuple[Path, ...]
    result: Result

    @property
    def playing(self) -> Mapping[str, Any]:
        """The settings under which the row was evaluated, and its models are to be used."""
        return self.told["evaluate"]

    @property
    def variant(self) -> Mapping[str, Any]:
        """The row as it was trained: its method, kind of ranker, models, and what it changes."""
        variant: Mapping[str, Any] = self.told["train"]["variant"]
        return variant

    def folders(self) -> dict[Path, list[str]]:
        """Folder of a model -> the roles that it plays; a shared backbone plays both."""
        found: dict[Path, list[str]] = {}
        for role, folder in self.models.items():
            found.setdefault(folder, []).append(role)
        return found


def read_finished(settings: Settings, name: str) -> FinishedRow:
    """The row ``VARIANT-SEED`` of a profile, from the project in the current folder.

    Raises ValueError for a row that trains nothing, was not trained and evaluated here, diverged,
    was withheld by its gate, or whose outputs are older than its parameters.
    """
    row, paths = _training(settings, name), Paths(settings.profile)
    train = paths.train(row.part, row.seed, row.variant)
    evaluated = paths.evaluate(row.part, row.seed, row.variant)
    gate = paths.gate(row.part, row.seed, row.variant) / "gate.json"
    if (evaluated / SKIPPED).is_file():
        raise ValueError(f"{name}: {read_json(evaluated / SKIPPED)['status']}")
    if not all(
        path.is_file() for path in (train / "trained.json", evaluated / "metrics.json", gate)
    ):
        command = row_command(settings.profile, row.variant, row.seed)
        raise ValueError(f"{name}: not trained and evaluated here; run `{command}`")
    verdict = {(row.variant, row.seed): read_json(gate)}
    if why := withheld(settings.systems, verdict).get(row.variant):
        raise ValueError(f"{name}: {why}")
    _check_recorded(paths, row, train)
    files = read_json(train / "trained.json")["files"]
    check_hashes(train, files, "train the variant again")
    system = settings.systems[row.variant]
    identities = {stage: paths.identity(f"{stage}@{name}") for stage in STAGES}
    told = {stage: read_json(path) for stage, path in identities.items()}
    roles = roles_under(system.ranker)
    trained = read_trained(train)
    return FinishedRow(
        name=name,
        profile=settings.profile,
        label=system.label,
        told={stage: one["settings"] for stage, one in told.items()},
        seals={stage: hash_file(path) for stage, path in identities.items()},
        models={role: Path(trained.models[role]) for role in roles},
        bases={role: _base(paths, told["train"], role, row.seed) for role in roles},
        rollouts=tuple(sorted(train.glob("rollouts/*.parquet"))),
        evaluated=tuple(sorted(evaluated.glob("*.parquet"))),
        result=read_results([evaluated])[0],
    )


def _training(settings: Settings, name: str) -> Training:
    graph = settings.graph
    if name in graph.trainings:
        return graph.trainings[name]
    if name in graph.evaluations:
        raise ValueError(f"{name}: this row trains no model of its own, so it has none to export")
    raise ValueError(f"no row {name!r}; a row is NAME-SEED, such as {next(iter(graph.trainings))}")


def _base(paths: Paths, trained: Mapping[str, Any], role: str, seed: int) -> tuple[str, str]:
    """The folder that a role started from, and its hash as the identity holds it."""
    if trained["settings"]["variant"]["models"][role] == FIXED_RANKER:
        trained = read_json(paths.identity(f"{FIXED_RANKER}@{seed}"))
    folder: str = trained["settings"]["models"][role]
    return folder, trained["models"][folder]


def _check_recorded(paths: Paths, row: Training, train: Path) -> None:
    """Raises ValueError unless dvc.lock says that the identities that lie here made the outputs,
    and that the models that lie here were evaluated."""
    folder, name = profile_folders()[paths.profile], f"{row.variant}-{row.seed}"
    stages = read_lock(folder)
    trained, evaluated = (stages.get(f"{stage}@{name}", {}) for stage in STAGES)
    made_by = (
        is_of(trained, paths.identity(f"train@{name}")),
        is_of(evaluated, paths.identity(f"evaluate@{name}")),
    )
    models = train.as_posix()
    made, read = hashes_in(trained, "outs").get(models), hashes_in(evaluated, "deps").get(models)
    if not all(made_by) or made != read:
        raise ValueError(
            f"{name}: {folder / LOCK} does not say that its models and results are those of the "
            f"present parameters; run `{row_command(paths.profile, row.variant, row.seed)}`"
        )
