"""params.yaml, read and checked whole before any work, then seen from one profile.

A stage asks for blocks by name. What it asked for is remembered, and a stage may ask only for what
its identity holds (``run/reads.py``), so that no value changes a result unnoticed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from cosearch.params.blocks import Agent, File, Profile
from cosearch.params.checks import check_references
from cosearch.params.derived import (
    BASE,
    GraphRows,
    graph_of,
    systems_of,
    tables_of,
    variants_of,
)
from cosearch.params.method import Method, Section
from cosearch.params.overrides import apply_overrides, flatten, overrides_under
from cosearch.params.reading import ConfigError, entry_of, explain, read_blocks
from cosearch.params.rows import Evaluation, Row, System, Tables, Training, Variant, complete

SectionT = TypeVar("SectionT", bound=Section)
_METHOD_PARTS = frozenset(Method.model_fields)


@dataclass(frozen=True)
class Settings:
    """params.yaml seen from one profile.

    ``asked`` collects the names of what was looked at. ``allowed`` is what may be looked at; None
    allows everything.
    """

    file: File
    profile: str
    asked: set[str] = field(default_factory=set)
    allowed: frozenset[str] | None = None

    def only(self, names: Iterable[str]) -> "Settings":
        """The same settings, which answer only for ``names``."""
        seen = replace(self, asked=set(), allowed=frozenset(names))
        for derived in ("rows", "_variants", "_systems", "_tables", "graph"):
            seen.__dict__[derived] = getattr(self, derived)  # computed once for all instances
        return seen

    def of_seeds(self, count: int) -> "Settings":
        """The same settings with the first ``count`` seeds of every row. Raises ConfigError unless
        there are so many."""
        if not 1 <= count <= self.file.seed_count:
            raise ConfigError(f"{count} seeds: a row has 1 to {self.file.seed_count} (seed_count)")
        file = self.file.model_copy(update={"seed_count": count})
        return Settings(file, self.profile)

    def section(self, kind: type[SectionT], overrides: Mapping[str, Any] | None = None) -> SectionT:
        """The profile's block of type ``kind`` with the overrides that concern it."""
        name = _snake(kind.__name__)
        self._ask(name)
        block = getattr(self._profile, name)
        return kind.model_validate(
            apply_overrides(block.model_dump(), overrides_under(overrides or {}, name), f"{name}.")
        )

    def method(self, overrides: Mapping[str, Any] | None = None) -> Method:
        """The profile's preset with the profile's and the caller's overrides."""
        self._ask("method")
        values = self.file.presets[self._profile.preset].model_dump()
        for layer in (self._profile.method, overrides or {}):
            own = {key: v for key, v in layer.items() if key.split(".")[0] in _METHOD_PARTS}
            values = apply_overrides(values, own)
        return Method.model_validate(values)

    def training(self, name: str) -> Training:
        """The training called ``name``: ``VARIANT-SEED``."""
        self._ask("rows")
        return entry_of(self.graph.trainings, "trainings", name)

    def evaluation(self, name: str) -> Evaluation:
        """The evaluation called ``name``: ``SYSTEM-SEED``."""
        self._ask("rows")
        return entry_of(self.graph.evaluations, "evaluations", name)

    def variant(self, name: str) -> Variant:
        """The variant called ``name``."""
        self._ask("rows")
        return entry_of(self.variants, "variants", name)

    def system(self, name: str) -> System:
        """The system called ``name``."""
        self._ask("rows")
        return entry_of(self.systems, "systems", name)

    def overrides_of(self, name: str) -> dict[str, Any]:
        """All that a system changes in the profile: what its models were trained under, its own
        ``set``, its K of Table 4, which no cutoff of Hit@k may exceed, and the room that K
        documents need."""
        system = self.system(name)
        trained = {} if system.variant == BASE else self.variant(system.variant).set
        changed = {**trained, **system.set, **self.at_grid(system.grid)}
        return changed | self._room(changed)

    def model_folders(self) -> dict[str, str]:
        """Every model folder that the profile or a row's own ``set`` names -> the path in
        params.yaml that names it, in the order of the folders."""
        blocks = {f"profiles.{self.profile}.models": self._profile.models.model_dump()}
        for name, row in self.rows.items():
            blocks[f"rows.{name}.set.models"] = overrides_under(row.set, "models")
        named = [
            (folder, f"{place}.{key}")
            for place, block in blocks.items()
            for key, folder in block.items()
            if folder is not None
        ]
        return dict(sorted(reversed(named), key=lambda pair: pair[0]))

    @cached_property
    def rows(self) -> dict[str, Row]:
        """Every row with what it takes over; a row's own preset is written out in its ``set``."""
        rows = complete(self.file.rows)
        return {
            name: row.model_copy(update={"set": self._of_preset(name, row.preset) | row.set})
            for name, row in rows.items()
        }

    @property
    def variants(self) -> dict[str, Variant]:
        """What is trained."""
        self._ask("rows")
        return self._variants

    @property
    def systems(self) -> dict[str, System]:
        """What is evaluated."""
        self._ask("rows")
        return self._systems

    @property
    def tables(self) -> Tables:
        """The tables with their rows."""
        self._ask("tables")
        return self._tables

    @cached_property
    def graph(self) -> GraphRows:
        """Every instance of a stage."""
        return graph_of(self.rows, self._systems, self.file.seed_count)

    @cached_property
    def _variants(self) -> dict[str, Variant]:
        return variants_of(self.rows)

    @cached_property
    def _systems(self) -> dict[str, System]:
        return systems_of(self.rows, self.grid_places())

    @cached_property
    def _tables(self) -> Tables:
        count = len(self._profile.evaluate.k_grid)
        return tables_of(self.file.tables, self.rows, self.grid_places(), count)

    def _ask(self, name: str) -> None:
        if self.allowed is not None and name not in self.allowed:
            raise ConfigError(
                f"this stage reads {name!r}, which its identity does not hold; add it to READS in"
                " cosearch/run/reads.py"
            )
        self.asked.add(name)

    def _of_preset(self, row: str, preset: str | None) -> dict[str, Any]:
        """What a row's own preset changes in the profile's, but for what the profile overrides."""
        if preset is None:
            return {}
        own = entry_of(self.file.presets, f"rows.{row}.preset", preset)
        mine, usual = (dict(flatten(block.model_dump())) for block in (own, self._preset))
        return {
            key: value
            for key, value in mine.items()
            if value != usual[key] and key not in self._profile.method
        }

    def at_grid(self, place: int | None) -> dict[str, Any]:
        """What an evaluation at a place of the K grid changes; nothing outside the grid."""
        if place is None:
            return {}
        top_k = self._profile.evaluate.k_grid[place]
        cutoffs = [k for k in self.method().reward.hit_cutoffs if k <= top_k]
        return {"rollout.top_k": top_k, "reward.hit_cutoffs": cutoffs}

    def _room(self, overrides: Mapping[str, Any]) -> dict[str, int]:
        """The limits of an observation and of a response in an evaluation. An observation has room
        for K documents, and a response for that much more in each of its searches; neither limit is
        below that of training."""
        agent, rollout = self.section(Agent, overrides), self.method(overrides).rollout
        trained, tokens = agent.max_observation_tokens, self._profile.evaluate.document_tokens
        room = max(trained, rollout.top_k * tokens)
        more = rollout.max_searches * (room - trained)
        return {
            "agent.max_observation_tokens": room,
            "agent.max_response_tokens": agent.max_response_tokens + more,
        }

    def grid_places(self) -> list[int]:
        """Places of the K grid that need a system of their own: K is not the method's."""
        method = apply_overrides(self._preset.model_dump(), self._profile.method)
        grid = self._profile.evaluate.k_grid
        return [place for place, k in enumerate(grid) if k != method["rollout"]["top_k"]]

    @property
    def _preset(self) -> Method:
        place = f"profiles.{self.profile}.preset"
        return entry_of(self.file.presets, place, self._profile.preset)

    @property
    def _profile(self) -> Profile:
        return entry_of(self.file.profiles, "profiles", self.profile)


def load_settings(
    profile: str, path: Path = Path("params.yaml"), text: str | None = None
) -> Settings:
    """Read and check all of params.yaml; ``text`` stands for what is in the file ``path``.

    Raises ConfigError with one line per fault.
    """
    try:
        settings = Settings(File.model_validate(read_blocks(path, text)), profile)
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain(error)}") from None
    try:
        for name in sorted({profile, *settings.file.profiles}):
            check_references(Settings(settings.file, name))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    return settings


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")
