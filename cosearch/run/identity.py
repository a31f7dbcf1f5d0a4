"""The identity of a stage instance: everything of this project that its result depends on.

It holds the settings that the row reads, resolved, the hash of each model that it starts from, and
the fingerprint of the code that it runs. The stage ``identity`` writes one file for each instance,
and every other stage depends on its own file and on its data. So a stage runs again when one of
these has changed, and only then.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cosearch.files.artifacts import Paths, read_json
from cosearch.files.model_record import UNRECORDED, read_record
from cosearch.params.reading import entry_of
from cosearch.params.settings import Settings
from cosearch.run.code import code_of
from cosearch.run.origin import differences
from cosearch.run.reads import READS, resolve

MEND = "run `dvc repro identity`"


@dataclass(frozen=True)
class Identity:
    """What one stage instance depends on. ``models``: folder -> hash; ``code``: file ->
    fingerprint."""

    stage: str
    settings: Mapping[str, Any]
    models: Mapping[str, str]
    code: Mapping[str, str]

    def text(self) -> str:
        """The file that DVC takes the hash of."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"

    def check(self, path: Path) -> None:
        """Raises ValueError where the file that DVC saw tells of other parameters, models or
        code."""
        if not path.is_file():
            raise ValueError(f"{path}: no such file; {MEND}")
        if lines := differences(read_json(path), asdict(self)):
            raise ValueError(f"{path} is older than the project ({'; '.join(lines)}); {MEND}")
        if lacking := [folder for folder, known in self.models.items() if known == UNRECORDED]:
            raise ValueError(
                f"no record of {', '.join(lacking)}; place the model there and run"
                " `python -m cosearch models --profile PROFILE`"
            )


def title_of(name: str, axes: Mapping[str, Any]) -> str:
    """The name of a stage instance in the graph: ``train@cosearch-0``."""
    return "@".join(filter(None, (name, "-".join(map(str, axes.values())))))


def identity_of(settings: Settings, name: str, axes: Mapping[str, Any]) -> Identity:
    """The identity of an instance of the stage ``name``."""
    return _identity(settings, name, axes, read_record(settings.profile))


def _identity(
    settings: Settings, name: str, axes: Mapping[str, Any], record: Mapping[str, str]
) -> Identity:
    told = resolve(settings, name, axes)
    folders = sorted(filter(None, set(told.get("models", {}).values())))
    models = {folder: record.get(folder, UNRECORDED) for folder in folders}
    return Identity(title_of(name, axes), told, models, code_of(f"stages.{name}", told))


def instances(settings: Settings) -> Iterator[tuple[str, dict[str, Any]]]:
    """(stage, axes) of every instance in the graph of a profile."""
    graph = settings.graph
    keys: Mapping[str, tuple[str, Any]] = {
        "fixed_ranker": ("seed", graph.seeds),
        "train": ("row", graph.trainings),
        "gate": ("row", graph.trainings),
        "evaluate": ("row", graph.evaluations),
        "collected": ("rows", graph.collections),
        "oracle_gap": ("scope", graph.scopes),
        "tables": ("scope", graph.scopes),
        "report": ("scope", graph.scopes),
    }
    for name in READS:
        axis, values = keys.get(name, ("", ()))
        if axis:
            yield from ((name, {axis: value}) for value in values)
        else:
            yield name, {}


def check_instance(settings: Settings, name: str, axes: Mapping[str, Any]) -> None:
    """Raises ConfigError where the graph has no such instance of the stage ``name``."""
    known = {title_of(*one): None for one in instances(settings) if one[0] == name}
    entry_of(known, f"profile {settings.profile}", title_of(name, axes))


def identities(settings: Settings) -> list[Identity]:
    """The identity of every instance in the graph of a profile."""
    record = read_record(settings.profile)
    return [_identity(settings, name, axes, record) for name, axes in instances(settings)]


def write_identities(settings: Settings, paths: Paths) -> int:
    """Write the identity of every instance; returns how many there are."""
    every = identities(settings)
    paths.identity("any").parent.mkdir(parents=True, exist_ok=True)
    for identity in every:
        paths.identity(identity.stage).write_text(identity.text(), "utf-8")
    return len(every)


def outdated(settings: Settings, paths: Paths) -> dict[str, list[str]]:
    """What has changed since the identities were written, in words -> the instances that it
    changes. Instances without a file are left out."""
    found: dict[str, list[str]] = {}
    for identity in identities(settings):
        path = paths.identity(identity.stage)
        for line in differences(read_json(path), asdict(identity)) if path.is_file() else ():
            found.setdefault(line, []).append(identity.stage)
    return found
