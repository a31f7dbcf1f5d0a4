"""Where the numbers of a row come from: the identities of its stages, and the commands that make
it again."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from cosearch.files.artifacts import Paths, read_json
from cosearch.params.overrides import flatten
from cosearch.params.rows_file import profile_folders
from cosearch.tables.evidence import Evidence

_LENGTH = 16
_ABSENT = "–"
_NAMES = ("row.", "system.label")
"""Settings that only say which row it is."""


@dataclass(frozen=True)
class StageOrigin:
    """What one stage instance depends on, as its identity ``file`` holds it."""

    file: str
    stage: str
    settings: Mapping[str, Any]
    models: Mapping[str, str]
    code: Mapping[str, str]

    @property
    def values(self) -> dict[str, Any]:
        """The settings by dotted key."""
        return dict(flatten(self.settings))

    @property
    def fingerprint(self) -> str:
        """One fingerprint of all the code."""
        text = json.dumps(self.code, sort_keys=True)
        return sha256(text.encode()).hexdigest()[:_LENGTH]


@dataclass(frozen=True)
class RowOrigin:
    """A row of params.yaml: its evaluation, and the training that it evaluates, at its first seed.

    ``differences``: its settings beside those of the row ``compared``. ``others``: stage at another
    seed -> the keys in which it differs. ``commands``: one per seed.
    """

    name: str
    label: str
    stages: tuple[StageOrigin, ...]
    compared: str
    differences: list[str]
    others: Mapping[str, list[str]]
    commands: tuple[str, ...]


def row_origins(paths: Paths, found: Evidence) -> list[RowOrigin]:
    """The origin of every evaluated row, in the order of params.yaml. A row that params.yaml no
    longer names has no identity, and so no origin.

    Each row is compared with the full model of Table 3, or with the first row where that is absent.
    """
    by_seed = {
        system: [one for seed in seeds if (one := tuple(_stages(paths, system, seed)))]
        for system in found.scope.labels
        if (seeds := [one.seed for one in found.results.by_system.get(system, ())])
    }
    known = {system: stages for system, stages in by_seed.items() if stages}
    full = found.tables.ablations.rows[0].system
    base = full if full in known else next(iter(known), full)
    prefix, label = command_prefix(paths.profile), found.scope.label
    return [
        RowOrigin(
            system,
            label(system),
            stages[0],
            label(base),
            _differences(known[base][0], stages[0]),
            {
                two.stage: _changed(one, two)
                for other in stages[1:]
                for one, two in zip(stages[0], other, strict=True)
            },
            tuple(f"dvc repro {prefix}{one[0].stage}" for one in stages),
        )
        for system, stages in known.items()
    ]


def command_prefix(profile: str) -> str:
    """What stands before a stage's name in a command of DVC: the profile's dvc.yaml, unless the
    project's root runs the profile."""
    folder = profile_folders().get(profile)
    return f"{folder.as_posix()}/dvc.yaml:" if folder is not None and folder.parts else ""


def _stages(paths: Paths, system: str, seed: int) -> Iterator[StageOrigin]:
    """The evaluation of a row at a seed, and the training of its models if the graph has one."""
    path = paths.identity(f"evaluate@{system}-{seed}")
    if path.is_file():
        evaluation = StageOrigin(path.as_posix(), **read_json(path))
        yield evaluation
        variant = evaluation.settings["system"]["variant"]
        training = paths.identity(f"train@{variant}-{seed}")
        if training.is_file():
            yield StageOrigin(training.as_posix(), **read_json(training))


def _differences(base: Sequence[StageOrigin], row: Sequence[StageOrigin]) -> list[str]:
    """``key: before → after`` for every setting that differs, names of the row left out."""
    before, after = ({k: v for one in of for k, v in one.values.items()} for of in (base, row))
    return [
        f"{key}: {before.get(key, _ABSENT)} → {after.get(key, _ABSENT)}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key, _ABSENT) != after.get(key, _ABSENT) and not key.startswith(_NAMES)
    ]


def _changed(one: StageOrigin, two: StageOrigin) -> list[str]:
    """Keys of settings, folders of models and files of code that differ."""
    left, right = ({**of.values, **of.models, **of.code} for of in (one, two))
    keys = left.keys() | right.keys()
    return sorted(key for key in keys if left.get(key) != right.get(key))
