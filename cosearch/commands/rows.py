"""rows.yaml of every profile: ``python -m cosearch rows`` writes it, ``check`` looks at it."""

from pathlib import Path

from cosearch.params.rows_file import check_rows, profile_folders, write_rows
from cosearch.params.settings import load_settings


def write_all(root: Path = Path()) -> list[str]:
    """Write the rows.yaml of every profile folder; returns a line for each."""
    lines = []
    for profile, folder in profile_folders(root).items():
        changed = write_rows(load_settings(profile, root / "params.yaml"), folder)
        lines.append(f"{folder / 'rows.yaml'}: {'written' if changed else 'up to date'}")
    return lines


def check_all(profile: str, root: Path = Path()) -> None:
    """Check params.yaml, for ``profile`` first, and hold every rows.yaml against it.

    Raises ConfigError with one line per fault.
    """
    load_settings(profile, root / "params.yaml")
    for name, folder in profile_folders(root).items():
        check_rows(load_settings(name, root / "params.yaml"), folder)
