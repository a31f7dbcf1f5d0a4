"""Under which licences models and data came to this project, as their publishers state them."""

from collections.abc import Mapping
from pathlib import Path

from cosearch.params import blocks
from cosearch.params.settings import Settings

OWN = "apache-2.0"
"""The licence of this project, of the models that it trains from scratch, and of its generated
world."""
LICENSES: Mapping[str, str] = {
    "models/tiny": OWN,
    "models/mini": "apache-2.0",
    "Qwen/Qwen2.5-7B-Instruct": "apache-2.0",
    "Qwen/Qwen2.5-3B-Instruct": "other",
    "BAAI/bge-reranker-v2-m3": "apache-2.0",
}
"""Repository of a model on the hub, or the folder that it lies in -> licence, as the hub spells
licences; ``other`` stands for terms that the hub has no name for."""


def published_as(settings: Settings, folder: str) -> str | None:
    """The repository on the hub that a model folder was fetched from, or None."""
    hub = settings.file.hub.get(settings.profile)
    return hub.models[folder].repo if hub and folder in hub.models else None


def model_license(settings: Settings, folder: str, stated: str | None) -> str:
    """The licence of what is trained from a model folder.

    ``stated`` is what the caller says. Raises ValueError where nobody says any.
    """
    known = published_as(settings, folder) or Path(folder).parent.as_posix()
    license = stated or LICENSES.get(known)
    if license is None:
        raise ValueError(f"{folder}: no licence is known of this model; state one with --license")
    return license


def data_license(settings: Settings, stated: str | None) -> str:
    """The licence of questions and passages."""
    generated = settings.section(blocks.Data).source == "world"
    return stated or (OWN if generated else "other")
