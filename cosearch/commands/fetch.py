"""``python -m cosearch fetch``: models and data of a profile, from pinned revisions."""

from pathlib import Path

from cosearch.commands.models import record
from cosearch.data.fetch_hub import download, fetch
from cosearch.params import blocks
from cosearch.params.settings import load_settings


def fetch_profile(profile: str) -> None:
    """Fetch what hub.yaml lists for the profile, and print each name.

    Raises:
        ValueError: ``hub`` has no such profile, a file cannot be had or is another one, or a model
            cannot work.
    """
    settings = load_settings(profile)
    if profile not in settings.file.hub:
        raise ValueError(f"hub: no {profile!r}; there is nothing to fetch for this profile")
    folder = Path(settings.section(blocks.Data).folder or ".")
    fetch(settings.file.hub[profile], Path(), folder, download, print)
    record(profile)
