"""The look at the models of a profile before they are recorded: each as its rows open it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from cosearch.engines.policies.build import ModelBlock, look_at_model
from cosearch.engines.retrieval.build import encoder_factory
from cosearch.params import blocks
from cosearch.params.rows import Row
from cosearch.params.settings import Settings
from cosearch.rollouts.pipelines import HEADS
from cosearch.rollouts.wiring import Parts

CONFIG = "config.json"
"""The file by which a folder is a model's."""


@dataclass(frozen=True, slots=True)
class Use:
    """How a role of a row opens a model folder; ``trainer`` is the engine that trains it there."""

    folder: str
    block: ModelBlock | blocks.Judge
    head: str
    trainer: str | None


def look_at_models(settings: Settings, root: Path) -> None:
    """Open every model that is there, once for each way in which the rows of the profile open it.

    Raises ValueError for the first one that cannot work there.
    """
    encoder = settings.section(blocks.Encoder).model_copy(update={"device": "cpu"})
    folder = root / settings.section(blocks.Models).encoder
    if (folder / CONFIG).is_file():
        encoder_factory(folder, encoder, 1)(0)
    seen: list[Use] = []
    every = (_uses(settings, row) for row in settings.rows.values())
    for use in chain(_judges(settings), *every):
        if use not in seen and (root / use.folder / CONFIG).is_file():
            seen.append(use)
            look_at_model(root / use.folder, use.block, use.head, use.trainer)


def _judges(settings: Settings) -> Iterator[Use]:
    """What the judge opens, where it is a model of this machine."""
    block = settings.section(blocks.Judge)
    folder = getattr(settings.section(blocks.Models), block.model, None)
    if block.kind == "likelihood" and folder is not None:
        yield Use(folder, block, "causal", None)


def _uses(settings: Settings, row: Row) -> Iterator[Use]:
    """What every role of a row opens that starts from a model folder."""
    parts, train = Parts.of(settings, row.set), settings.section(blocks.Train, row.set)
    found: dict[str, ModelBlock] = {
        "agent": parts.agent,
        "ranker": parts.ranker,
        "simulator": settings.section(blocks.Simulator, row.set),
    }
    for role, name in row.models.items():
        folder = getattr(parts.models, name, None)
        head = HEADS.get(row.ranker, "causal") if role == "ranker" else "causal"
        if folder is not None:
            trainer = train.engine if role in row.train and train.rounds else None
            yield Use(folder, found[role], head, trainer)
