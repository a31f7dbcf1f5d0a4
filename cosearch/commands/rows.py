"""rows.yaml of every profile: ``python -m cosearch rows`` writes it, ``check`` looks at it."""

from pathlib import Path

from cosearch.commands.doctor import models_command
from cosearch.files.model_record import read_record
from cosearch.params.reading import ConfigError
from cosearch.params.rows_file import check_rows, first_profile, profile_folders, write_rows
from cosearch.params.settings import Settings, load_settings


def write_all(root: Path = Path()) -> list[str]:
    """Write the rows.yaml of every profile folder; returns a line for each. Raises ConfigError
    outside a project."""
    first_profile(root)
    lines = []
    for profile, folder in profile_folders(root).items():
        changed = write_rows(load_settings(profile, root / "params.yaml"), folder)
        lines.append(f"{folder / 'rows.yaml'}: {'written' if changed else 'up to date'}")
    return lines


def check_all(profile: str, root: Path = Path()) -> list[str]:
    """Check params.yaml, hold every rows.yaml against it, and look for the models of ``profile``.
    Returns a line for each other profile whose models are not there yet.

    Raises ConfigError with one line per fault.
    """
    first_profile(root)
    if lack := lacking_models(load_settings(profile, root / "params.yaml"), root):
        raise ConfigError(lack)
    told = []
    for name, folder in profile_folders(root).items():
        settings = load_settings(name, root / "params.yaml")
        check_rows(settings, folder)
        if lack := lacking_models(settings, root):
            told.append(f"profile {name} cannot run yet: {lack}")
    return told


def lacking_models(settings: Settings, root: Path) -> str:
    """Which folders of the profile's models hold no model or have no record, and what to do; empty
    where nothing is lacking."""
    record, folders = read_record(settings.profile, root), settings.model_folders()
    missing = [one for one in folders if not (root / one / "config.json").is_file()]
    unknown = [one for one in folders if one not in missing and one not in record]
    told = []
    if missing:
        named = ", ".join(f"{one} ({folders[one]})" for one in missing)
        fix = f"correct the path, or get the models: {models_command(settings)}"
        told.append(f"no model in {named}; {fix}")
    if unknown:
        fix = f"python -m cosearch models --profile {settings.profile}"
        told.append(f"no record of {', '.join(unknown)}; run: {fix}")
    return "; ".join(told)
