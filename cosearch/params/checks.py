"""The checks of params.yaml that look at more than one block: every name points to something that
is there, and every override fits its schema.

Each fault is one line that begins with the path of what is wrong.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from cosearch.params.blocks import Agent, File, Models, Ranker, Train
from cosearch.params.derived import BASE, FIXED_RANKER
from cosearch.params.method import Method
from cosearch.params.overrides import flatten
from cosearch.params.reading import ConfigError, entry_of, explain, suggestion
from cosearch.params.rows import RankerKind, RoleName, Row

if TYPE_CHECKING:
    from cosearch.params.settings import Settings

NAME = re.compile(r"[a-z][a-z0-9_]*")
"""What rows and profiles may be called: commands, files and DVC's targets hold these names."""
SETTABLE = (Train, Agent, Ranker, Models)
"""Blocks of a profile that a row may override, beside the method."""
SECTIONS = {*Method.model_fields, *(kind.__name__.lower() for kind in SETTABLE)}
"""First words of the keys that a row may override."""
SAMPLED: Mapping[RoleName, type[Agent] | type[Ranker]] = {"agent": Agent, "ranker": Ranker}
"""Roles that learn -> the block that says how they are sampled."""
BITS = {"bfloat16": 16, "float32": 32}
"""How many bits a number of each type has."""
NEEDED: Mapping[RankerKind, RoleName] = {
    "generative": "ranker",
    "cross_encoder": "ranker",
    "simulated": "simulator",
}
"""Ranker kinds that play with a model -> the role that needs one."""


def check_references(settings: "Settings") -> None:
    """Raises ConfigError for the first fault of rows, tables or profile, seen from one profile."""
    profile = entry_of(settings.file.profiles, "profiles", settings.profile)
    place = f"profiles.{settings.profile}"
    entry_of(settings.file.presets, f"{place}.preset", profile.preset)
    check_overrides(f"{place}.method", settings, profile.method)
    _check_types(place, settings, {}, ("agent", "ranker"))
    _check_rows(settings)
    for path, name in named_rows(settings.file):
        entry_of(settings.systems, path, name)
    _check_tables(settings)


def check_overrides(place: str, settings: "Settings", overrides: Mapping[str, Any]) -> None:
    """Raises ConfigError where an override, named at ``place``, has no key or a wrong value."""
    for key in overrides:
        if key.split(".")[0] not in SECTIONS:
            known = [name for name, _ in flatten(_overridable(settings))]
            raise ConfigError(f"{place}: no key {key!r}; {suggestion(key, known)}")
    try:
        settings.method(overrides)
        for kind in SETTABLE:
            settings.section(kind, overrides)
    except ValidationError as error:
        raise ConfigError(f"{place}, profile {settings.profile}: {explain(error)}") from None
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None


def _overridable(settings: "Settings") -> dict[str, Any]:
    blocks = {kind.__name__.lower(): settings.section(kind).model_dump() for kind in SETTABLE}
    return settings.method().model_dump() | blocks


def _check_rows(settings: "Settings") -> None:
    for name, row in settings.rows.items():
        check_name(name)
        _check_models(name, row)
        if row.models_of is not None:
            entry_of(settings.variants, f"rows.{name}.models_of: trained rows", row.models_of)
        check_overrides(f"rows.{name}.set", settings, row.set)
        _check_types(f"rows.{name}", settings, row.set, row.train)
    for place in settings.grid_places():
        where = f"profiles.{settings.profile}.evaluate.k_grid"
        check_overrides(where, settings, settings.at_grid(place))


def _check_types(
    place: str, settings: "Settings", overrides: Mapping[str, Any], roles: Iterable[RoleName]
) -> None:
    """The engine that trains has rules, and no sampler of ``roles`` has a wider type than they."""
    train = settings.section(Train, overrides)
    rules = getattr(train, train.engine)
    if rules is None:
        engine = f"train.engine is {train.engine}, and train.{train.engine} is null"
        raise ConfigError(f"{place}, profile {settings.profile}: {engine}: give its rules")
    for role in roles:
        sampled = settings.section(SAMPLED[role], overrides).dtype
        if BITS[sampled] > BITS[rules.dtype]:
            raise ConfigError(
                f"{place}, profile {settings.profile}: {role}.dtype is {sampled}, and"
                f" train.{train.engine}.dtype is {rules.dtype}: a sampler takes the weights over in"
                " its own type, which is that of the trainer or a narrower one"
            )


def check_name(name: str) -> None:
    """Raises ConfigError for a name that no row may have."""
    if not NAME.fullmatch(name) or name == BASE:
        rule = f"lower case letters, digits and underscores, and is not {BASE!r}"
        raise ConfigError(f"rows.{name}: a name has {rule}")


def _check_models(name: str, row: Row) -> None:
    """Every role of a row starts from a model that profiles know, and none that plays lacks one."""
    for model in row.models.values():
        entry_of(dict.fromkeys([*Models.model_fields, FIXED_RANKER]), f"rows.{name}.models", model)
    roles = {"agent", *row.train, *filter(None, [NEEDED.get(row.ranker)])}
    if lacking := sorted(roles - row.models.keys()):
        raise ConfigError(f"rows.{name}.models: names no model of the role {lacking[0]!r}")


def _check_tables(settings: "Settings") -> None:
    cutoffs = settings.method().reward.hit_cutoffs
    for number, pair in enumerate(settings.file.comparisons):
        if pair.cutoff is not None and pair.cutoff not in cutoffs:
            at = f"comparisons.{number}.metric: {pair.metric}"
            raise ConfigError(f"{at}: profile {settings.profile} measures k in {list(cutoffs)}")
    _check_shown(settings)
    shown = {"training_curves": settings.tables.training_curves, "groups": settings.tables.groups}
    for figure, names in shown.items():
        for name in names:
            entry_of(settings.variants, f"rows.{name}.tables, {figure}: trained rows", name)


def _check_shown(settings: "Settings") -> None:
    """Rows that show different numbers of documents stand in no table that holds one number."""
    tables = settings.tables
    for block in (*tables.main, tables.ablations, tables.walk):
        shown = {
            row.system: settings.method(settings.overrides_of(row.system)).rollout.top_k
            for row in block.rows
        }
        first = block.rows[0].system
        for name, k in shown.items() if "top_k" not in block.varying else ():
            if k != shown[first]:
                raise ConfigError(
                    f"rows.{name}: rollout.top_k is {k}, and that of {first}, which stands in the"
                    f" same table ({block.name}), is {shown[first]}; add top_k to the `varying` of"
                    " this table, or take the row out of it"
                )


def named_rows(file: File) -> Iterator[tuple[str, str]]:
    """(path, name) of everything in params.yaml that names a row or a system."""
    for row, entry in file.rows.items():
        for key, name in (("like", entry.like), ("models_of", entry.models_of)):
            if name is not None:
                yield f"rows.{row}.{key}", name
    for profile, block in file.profiles.items():
        for system in block.evaluate.systems or ():
            yield f"profiles.{profile}.evaluate.systems", system
    yield from _named_by_tables(file)


def _named_by_tables(file: File) -> Iterator[tuple[str, str]]:
    for number, comparison in enumerate(file.comparisons):
        yield f"comparisons.{number}.left", comparison.left
        yield f"comparisons.{number}.right", comparison.right
    for pair in file.tables.oracle:
        yield f"tables.oracle.{pair.name}.standard", pair.standard
        yield f"tables.oracle.{pair.name}.oracle", pair.oracle
    yield "tables.detectable.left", file.tables.detectable.left
    yield "tables.detectable.right", file.tables.detectable.right
