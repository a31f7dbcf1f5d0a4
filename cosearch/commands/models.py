"""The record of a profile's models: ``python -m cosearch models``, after one was put in place."""

from pathlib import Path

from cosearch.commands.look import look_at_models
from cosearch.files.model_record import record_models
from cosearch.params.settings import load_settings


def record(profile: str, root: Path = Path()) -> list[str]:
    """Look at the model folders that the profile names, and record them; returns a line for each.

    Raises ValueError, and records nothing, where one cannot work.
    """
    settings = load_settings(profile, root / "params.yaml")
    look_at_models(settings, root)
    hashes = record_models(profile, settings.model_folders(), root)
    return [
        f"{folder}: {hashes[folder][:12] if folder in hashes else 'not there'}"
        for folder in settings.model_folders()
    ]
