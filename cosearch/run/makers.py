"""On which machines results were made, and whether another one will make the same bytes."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cosearch.files.artifacts import Paths, read_json, write_json
from cosearch.params.rows import PARTS
from cosearch.params.settings import Settings
from cosearch.run.identity import title_of
from cosearch.run.pins import NEEDED, Processor

Maker = Mapping[str, Any]
"""What decides the bytes of a machine's results: its processor, pins and packages."""
_DECISIVE = {0: ("maker", "model", "features"), 1: ("maker",), 2: ()}
"""``runtime.portable`` -> what two processors must have in common."""


def maker_of(processor: Processor, portable: int, packages: Mapping[str, str]) -> Maker:
    """What the record of a run says of its machine."""
    features = sorted(one for one in processor.features if one.startswith(("avx", "fma", "amx")))
    return {
        "maker": processor.maker,
        "model": processor.model,
        "features": features,
        "portable": portable,
        "packages": dict(packages),
    }


def why_noise(there: Maker, here: Maker) -> str | None:
    """Why results that were made ``there`` come out ``here`` within noise alone; None where the
    same bytes can be expected."""
    old, new = there["packages"], here["packages"]
    if other := sorted(one for one in old.keys() | new.keys() if old.get(one) != new.get(one)):
        return f"other versions of {', '.join(other)}"
    if there["portable"] != here["portable"]:
        return f"runtime.portable was {there['portable']} and is {here['portable']}"
    if any(there[name] != here[name] for name in _DECISIVE[here["portable"]]):
        return f"made on {there['maker']} {there['model']}"
    if here["portable"] and not {*here["features"]} >= NEEDED:
        return "this processor lacks AVX2 or FMA"
    return None


def record_makers(settings: Settings, paths: Paths, scope: str) -> None:
    """Write down which machines made the rows of a scope, beside the tables that git keeps.

    The record of each run names its machine; a row that DVC restored from its cache has none. If no
    row has one, what is written already stays.
    """
    part, _, count = scope.partition("_")
    graph = settings.graph
    titles = [
        title_of(stage, {"row": name})
        for stage, rows in (("train", graph.trainings), ("evaluate", graph.evaluations))
        for name, row in rows.items()
        if row.part in PARTS[part] and row.seed < int(count)
    ]
    records = [paths.timing(title) for title in titles]
    found = [read_json(path).get("made_by") for path in records if path.is_file()]
    if makers := _distinct(filter(None, found)):
        known = read_json(paths.made_by) if paths.made_by.is_file() else {}
        write_json(paths.made_by, known | {scope: makers})


def expectations(paths: Paths, here: Maker, root: Path = Path()) -> dict[str, str | None]:
    """Scope of committed results -> why this machine will not make the same bytes, or None."""
    place = root / paths.made_by
    known: Mapping[str, list[Maker]] = read_json(place) if place.is_file() else {}
    return {
        scope: next(filter(None, (why_noise(one, here) for one in makers)), None)
        for scope, makers in known.items()
    }


def _distinct(makers: Iterable[Maker]) -> list[Maker]:
    found: list[Maker] = []
    for one in makers:
        if one not in found:
            found.append(one)
    return found
