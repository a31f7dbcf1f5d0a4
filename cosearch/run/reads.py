"""What each stage reads of params.yaml, resolved for one instance.

``READS`` says what a stage may ask of ``Settings``; asking for more is an error. ``resolve`` gives
the values as the instance will see them: after preset, profile and the row's own ``set``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cosearch.params import blocks
from cosearch.params.derived import FIXED_RANKER
from cosearch.params.method import Section
from cosearch.params.settings import Settings

Told = dict[str, Any]
RETRIEVAL = ("encoder", "index", "models", "runtime")
PLAYING = ("method", "agent", "ranker", *RETRIEVAL)
TABLES = ("method", "data", "evaluate", "rows", "tables")


@dataclass(frozen=True)
class Reads:
    """``names``: what the stage may ask for. ``tell``: the values, for one instance."""

    names: tuple[str, ...]
    tell: Callable[[Settings, Mapping[str, Any]], Told]


def resolve(settings: Settings, stage: str, axes: Mapping[str, Any]) -> Told:
    """The settings of one instance of ``stage``, as plain values by block."""
    told = READS[stage].tell(settings.only(READS[stage].names), axes)
    return {name: _plain(value) for name, value in told.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


def _data(settings: Settings, axes: Mapping[str, Any]) -> Told:
    return {"data": settings.section(blocks.Data)}


def _encode(settings: Settings, axes: Mapping[str, Any]) -> Told:
    return {
        "encoder": settings.section(blocks.Encoder),
        "models": _folders(settings),
        "runtime": settings.section(blocks.Runtime),
    }


def _index(settings: Settings, axes: Mapping[str, Any]) -> Told:
    return _encode(settings, axes) | {"index": settings.section(blocks.Index)}


def _retrieval(settings: Settings, axes: Mapping[str, Any]) -> Told:
    return _index(settings, axes) | {
        "data": settings.section(blocks.Data),
        "evaluate": settings.section(blocks.Evaluate),
        "relevance": settings.method().relevance,
    }


def _fixed_ranker_data(settings: Settings, axes: Mapping[str, Any]) -> Told:
    method = settings.method()
    return _index(settings, axes) | {
        "fixed_ranker": settings.section(blocks.FixedRanker),
        "method": method,
    }


def _fixed_ranker(settings: Settings, axes: Mapping[str, Any]) -> Told:
    return _fixed_ranker_data(settings, axes) | {
        "ranker": settings.section(blocks.Ranker),
        "agent": settings.section(blocks.Agent),
        "train": settings.section(blocks.Train),
        "models": _folders(settings, {"ranker": "ranker"}),
        **axes,
    }


def _train(settings: Settings, axes: Mapping[str, Any]) -> Told:
    row = settings.training(axes["row"])
    variant = settings.variant(row.variant)
    told = _index(settings, axes) | _playing(settings, variant.set)
    told |= {
        "row": row,
        "variant": variant,
        "train": settings.section(blocks.Train, variant.set),
        "models": _folders(settings, variant.models, variant.set),
    }
    if "simulator" in variant.models:
        told["simulator"] = settings.section(blocks.Simulator)
    if told["method"].reward.source == "judge":
        judge = told["judge"] = settings.section(blocks.Judge)
        if judge.endpoint is None:
            told["models"] |= _folders(settings, {"judge": judge.model}, variant.set)
    return told


def _gate(settings: Settings, axes: Mapping[str, Any]) -> Told:
    row = settings.training(axes["row"])
    return (
        _index(settings, axes)
        | _playing(settings, {})
        | {
            "row": row,
            "variant": settings.variant(row.variant),
            "gate": settings.section(blocks.Gate),
        }
    )


def _evaluate(settings: Settings, axes: Mapping[str, Any]) -> Told:
    row = settings.evaluation(axes["row"])
    system = settings.system(row.system)
    overrides = settings.overrides_of(row.system)
    usual = settings.method()
    return (
        _index(settings, axes)
        | _playing(settings, overrides)
        | {
            "row": row,
            "system": system,
            "measured_by": {"reward": usual.reward, "relevance": usual.relevance},
            "evaluate": settings.section(blocks.Evaluate),
            "models": _folders(settings, system.models, overrides),
        }
    )


def _collected(settings: Settings, axes: Mapping[str, Any]) -> Told:
    return {"rows": settings.graph.collections[axes["rows"]]}


def _tables(settings: Settings, axes: Mapping[str, Any]) -> Told:
    file = settings.file
    return {
        "method": settings.method(),
        "data": settings.section(blocks.Data),
        "evaluate": settings.section(blocks.Evaluate),
        "systems": settings.systems,
        "variants": settings.variants,
        "tables": settings.tables,
        "comparisons": file.comparisons,
        "statistics": file.statistics,
    }


def _playing(settings: Settings, overrides: Mapping[str, Any]) -> Told:
    return {
        "method": settings.method(overrides),
        "agent": settings.section(blocks.Agent, overrides),
        "ranker": settings.section(blocks.Ranker, overrides),
    }


def _folders(
    settings: Settings,
    roles: Mapping[Any, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, str | None]:
    """Role -> the model folder that it starts from; the encoder always, and no role that starts
    from what another stage trained."""
    models = settings.section(blocks.Models, overrides)
    names = {"encoder": "encoder", **(roles or {})}
    return {role: getattr(models, name) for role, name in names.items() if name != FIXED_RANKER}


READS: Mapping[str, Reads] = {
    "data": Reads(("data",), _data),
    "encode": Reads(("encoder", "models", "runtime"), _encode),
    "index": Reads(RETRIEVAL, _index),
    "retrieval": Reads((*RETRIEVAL, "data", "evaluate", "method"), _retrieval),
    "fixed_ranker_data": Reads((*RETRIEVAL, "fixed_ranker", "method"), _fixed_ranker_data),
    "fixed_ranker": Reads((*PLAYING, "fixed_ranker", "train"), _fixed_ranker),
    "train": Reads((*PLAYING, "rows", "train", "simulator", "judge"), _train),
    "gate": Reads((*PLAYING, "rows", "gate"), _gate),
    "evaluate": Reads((*PLAYING, "rows", "evaluate"), _evaluate),
    "collected": Reads((), _collected),
    "oracle_gap": Reads(TABLES, _tables),
    "tables": Reads(TABLES, _tables),
    "report": Reads(TABLES, _tables),
}
"""Stage -> what it reads, in the order of dvc.yaml."""
