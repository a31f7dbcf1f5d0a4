"""params.yaml, read and checked whole before any work, then seen from one profile.

A stage asks for sections by name; what it asked for is remembered, so that a test can hold it
against the parameters that dvc.yaml says the stage depends on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from cosearch.params.blocks import Agent, File, Models, Profile, Ranker, Train
from cosearch.params.method import Method, Section
from cosearch.params.rows import Evaluation, System, Training, Variant


class ConfigError(ValueError):
    """params.yaml is wrong; the message names the key and what is expected."""


SectionT = TypeVar("SectionT", bound=Section)
Value = TypeVar("Value")
BASE = "base"
"""What a system's ``variant`` says when its models were never trained."""
UNTRAINED = "data/manifest.json"
"""What a row of untrained models needs: an output that is always there."""
FIXED_RANKER = "fixed_ranker"
"""What a variant's ``models`` says for the ranker that the stage of that name trained."""
_METHOD_PARTS = frozenset(Method.model_fields)
_PROFILE_PARTS = frozenset({"train", "agent", "ranker", "models"})


@dataclass(frozen=True)
class Settings:
    """params.yaml seen from one profile. ``asked`` collects the keys that were looked at."""

    file: File
    profile: str
    asked: set[str] = field(default_factory=set)

    def section(self, kind: type[SectionT], overrides: Mapping[str, Any] | None = None) -> SectionT:
        """The profile's block of type ``kind`` with the overrides that concern it."""
        name = _snake(kind.__name__)
        self.asked.add(f"profiles.{self.profile}.{name}")
        block = getattr(self._profile, name)
        return kind.model_validate(_apply(block.model_dump(), _under(overrides or {}, name)))

    def method(self, overrides: Mapping[str, Any] | None = None) -> Method:
        """The profile's preset with the profile's and the caller's overrides."""
        here = f"profiles.{self.profile}"
        self.asked.update(("presets", f"{here}.preset", f"{here}.method"))
        values = self.file.presets[self._profile.preset].model_dump()
        for layer in (self._profile.method, overrides or {}):
            own = {key: v for key, v in layer.items() if key.split(".")[0] in _METHOD_PARTS}
            values = _apply(values, own)
        return Method.model_validate(values)

    def training(self, name: str) -> Training:
        """The training called ``name``: ``VARIANT-SEED``."""
        self.asked.add(f"trainings.{name}")
        return _named(self.file.trainings, "trainings", name)

    def evaluation(self, name: str) -> Evaluation:
        """The evaluation called ``name``: ``SYSTEM-SEED``."""
        self.asked.add(f"evaluations.{name}")
        return _named(self.file.evaluations, "evaluations", name)

    def variant(self, name: str) -> Variant:
        """The variant called ``name``."""
        self.asked.add(f"variants.{name}")
        return _named(self.file.variants, "variants", name)

    def system(self, name: str) -> System:
        """The system called ``name``."""
        self.asked.add(f"systems.{name}")
        return _named(self.file.systems, "systems", name)

    @property
    def _profile(self) -> Profile:
        return _named(self.file.profiles, "profiles", self.profile)


def load_settings(profile: str, path: Path = Path("params.yaml")) -> Settings:
    """Read and check all of params.yaml. Raises ConfigError with one line per fault."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; run from the project's root")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        file = File.model_validate(raw)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise ConfigError(f"{path}: {_explain(error)}") from None
    settings = Settings(file, profile)
    _check_references(settings, path)
    settings.asked.clear()
    return settings


def _check_references(settings: Settings, path: Path) -> None:
    """Every name that points somewhere points to something, and every override fits its schema."""
    file = settings.file
    try:
        for name, system in file.systems.items():
            if system.variant not in {BASE, *file.variants}:
                raise ConfigError(f"systems.{name}.variant: no variant {system.variant!r}")
        _check_trainings(file)
        _check_evaluations(file)
        _check_models(file)
        _check_tables(file)
        _check_grid(file)
        for profile in sorted({settings.profile, *file.profiles}):
            _named(file.presets, "presets", _named(file.profiles, "profiles", profile).preset)
            _check_overrides(Settings(file, profile))
    except ValidationError as error:
        raise ConfigError(f"{path}: {_explain(error)}") from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _check_trainings(file: File) -> None:
    """A training is called VARIANT-SEED and needs the Fixed Ranker of its seed, or nothing."""
    for name, row in file.trainings.items():
        models = _named(file.variants, "variants", row.variant).models
        fixed = FIXED_RANKER in models.values()
        needs = f"fixed_ranker/seed_{row.seed}" if fixed else UNTRAINED
        wanted = f"{row.variant}-{row.seed}"
        if name != wanted or row.needs != needs:
            raise ConfigError(
                f"trainings.{name}: it must read {wanted}: {{variant: {row.variant},"
                f" seed: {row.seed}, part: {row.part}, needs: {needs}}}"
            )


def _check_evaluations(file: File) -> None:
    """An evaluation is called SYSTEM-SEED and needs exactly what its system's variant leaves."""
    for name, row in file.evaluations.items():
        variant = _named(file.systems, "systems", row.system).variant
        needs = UNTRAINED
        if variant != BASE:
            source = _named(file.trainings, "trainings", f"{variant}-{row.seed}")
            needs = f"train/{source.part}/seed_{row.seed}/{variant}"
        wanted = f"{row.system}-{row.seed}"
        if name != wanted or row.needs != needs:
            raise ConfigError(
                f"evaluations.{name}: it must read {wanted}: {{system: {row.system},"
                f" seed: {row.seed}, part: {row.part}, needs: {needs}}}"
            )


def _check_models(file: File) -> None:
    """Every role starts from a name that profiles know."""
    known = {*Models.model_fields, FIXED_RANKER}
    rows: dict[str, Mapping[Any, str]] = {
        **{f"variants.{name}": variant.models for name, variant in file.variants.items()},
        **{f"systems.{name}": system.models for name, system in file.systems.items()},
    }
    for owner, models in rows.items():
        if unknown := sorted(set(models.values()) - known):
            raise ConfigError(f"{owner}.models: no {unknown[0]!r}; there are {sorted(known)}")


def _check_tables(file: File) -> None:
    """Tables and figures name rows that exist."""
    tables = file.tables
    blocks = (*tables.main, tables.ablations, tables.walk)
    systems = [row.system for block in blocks for row in block.rows]
    systems += [name for pair in tables.oracle for name in (pair.standard, pair.oracle)]
    systems += [name for row in tables.grid.rows for name in row.systems]
    for name in systems:
        _named(file.systems, "tables: systems", name)
    for name in (*tables.training_curves, *tables.groups):
        _named(file.variants, "tables: variants", name)


def _check_grid(file: File) -> None:
    """Positions of the K grid that systems pick exist in every profile."""
    last = max((row.grid for row in file.systems.values() if row.grid is not None), default=-1)
    for name, profile in file.profiles.items():
        if last >= len(profile.evaluate.k_grid):
            raise ConfigError(f"profiles.{name}.evaluate.k_grid: no position {last}")


def _check_overrides(settings: Settings) -> None:
    owners: dict[str, Mapping[str, Any]] = {"profile": settings._profile.method}
    owners |= {f"variants.{name}": v.set for name, v in settings.file.variants.items()}
    owners |= {f"systems.{name}": s.set for name, s in settings.file.systems.items()}
    for owner, overrides in owners.items():
        for key in overrides:
            if key.split(".")[0] not in _METHOD_PARTS | _PROFILE_PARTS:
                raise ConfigError(f"{owner}: {key!r} starts with no known section")
        settings.method(overrides)
        for kind in (Train, Agent, Ranker, Models):
            settings.section(kind, overrides)


def _named(block: Mapping[str, Value], kind: str, name: str) -> Value:
    if name not in block:
        raise ConfigError(f"{kind}: no {name!r}; there are {', '.join(sorted(block))}")
    return block[name]


def _under(overrides: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The overrides below ``name``, relative to it."""
    prefix = f"{name}."
    return {key[len(prefix) :]: v for key, v in overrides.items() if key.startswith(prefix)}


def _apply(values: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` with dotted keys replaced. A key that does not exist yet is an error."""
    for key, value in overrides.items():
        *parents, last = key.split(".")
        block = values
        for parent in parents:
            block = block.get(parent, {})
        if last not in block:
            raise ConfigError(f"unknown parameter {key!r}; known here: {', '.join(sorted(block))}")
        block[last] = value
    return values


def _explain(error: ValidationError) -> str:
    faults = [
        f"{'.'.join(map(str, fault['loc'])) or 'params'}: {fault['msg']}"
        for fault in error.errors()
    ]
    return "; ".join(faults)


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")
