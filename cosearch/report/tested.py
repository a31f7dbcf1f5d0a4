"""Test questions for a reader: a sample of them, with the trajectory of every system.

The questions are the same for all systems, so that any two can be read side by side. They are
chosen without random numbers, so that data sets and outcomes of the first two systems are spread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from cosearch.data.corpus import PassageLookup
from cosearch.report.episodes import (
    TOLD,
    Episode,
    Episodes,
    Tested,
    episode_of,
    look_up,
    outcome_of,
)
from cosearch.report.spread import KEY, Key, key_of, spread

_LIGHT = (*KEY, "kind", "golds", "answer", "terminal")


def add_tested(
    episodes: Episodes,
    systems: Mapping[str, Path],
    passages: PassageLookup,
    *,
    yes_no_rule: str,
    limit: int,
) -> Episodes:
    """``episodes`` with at most ``limit`` test questions. ``systems``: label -> file of whole
    trajectories. Raises ValueError for a file that is missing or no such file."""
    light = {name: _read(path, _LIGHT) for name, path in islice(systems.items(), 2)}
    features: dict[Key, list[str]] = {}
    for name, frame in light.items():
        for row in frame.filter(kind="trajectory").iter_rows(named=True):
            told = features.setdefault(key_of(row), [row["dataset"]])
            told.append(f"{name} {outcome_of(row, yes_no_rule)}")
    keys = spread({key: [" ".join(told), *told] for key, told in features.items()}, limit)
    found = {name: _episodes(path, name, keys, yes_no_rule) for name, path in systems.items()}
    questions = tuple(tuple(one[key] for one in found.values() if key in one) for key in keys)
    known = look_up([one for row in questions for one in row], passages)
    tested = Tested(tuple(systems), questions, len(features))
    return replace(episodes, tested=tested, passages={**episodes.passages, **known})


def _episodes(path: Path, label: str, keys: Sequence[Key], yes_no_rule: str) -> dict[Key, Episode]:
    rows: dict[Key, list[dict[str, Any]]] = {}
    for row in _read(path, TOLD, keys).iter_rows(named=True):
        rows.setdefault(key_of(row), []).append(row)
    return {key: episode_of(own, label, None, yes_no_rule, {}) for key, own in rows.items()}


def _read(path: Path, columns: Sequence[str], keys: Sequence[Key] | None = None) -> pl.DataFrame:
    """Columns of a file of trajectories, of the questions ``keys`` if they are given."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; run `dvc repro` to make it")
    try:
        rows = pl.scan_parquet(path).select(columns)
        if keys is not None:
            schema = {name: rows.collect_schema()[name] for name in KEY}
            picked = pl.LazyFrame(keys, schema=schema, orient="row")
            rows = rows.join(picked, on=KEY, how="semi", maintain_order="left")
        return rows.collect()
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path}: not a file of trajectories ({error})") from None
