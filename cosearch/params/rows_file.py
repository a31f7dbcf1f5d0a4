"""rows.yaml: the rows of a profile as DVC reads them.

DVC cannot compute, so ``python -m cosearch rows`` writes what it needs beside the profile.yaml of
the folder. Every stage holds the file against params.yaml before it works.
"""

import os
import re
from pathlib import Path
from typing import Any

import yaml

from cosearch.params.reading import ConfigError, load_yaml
from cosearch.params.settings import Settings

HEAD = "# Made from params.yaml by `python -m cosearch rows`; edit the rows there.\n"
MEND = "run `python -m cosearch rows`"
EXPERIMENT = "DVC_EXP_BASELINE_REV"
"""Environment variable that DVC sets for the stages of an experiment."""
MEND_BEFORE = f"an experiment cannot do that: edit params.yaml and {MEND} before it"


def rows_text(settings: Settings) -> str:
    """The whole file of a profile."""
    told = {"graph": settings.graph.model_dump(mode="json")}
    lines = ["graph:"]
    for name, value in told["graph"].items():
        lines += _block(name, value)
    return HEAD + "\n".join(lines) + "\n"


def _block(name: str, value: Any) -> list[str]:
    if not isinstance(value, dict):
        return [f"  {name}: {_flow(value)}"]
    return [f"  {name}:", *(f"    {key}: {_flow(one)}" for key, one in value.items())]


def _flow(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6).strip()


def write_rows(settings: Settings, folder: Path) -> bool:
    """Write rows.yaml into the folder of a profile; returns whether it was another one before."""
    path, text = folder / "rows.yaml", rows_text(settings)
    if path.is_file() and path.read_text("utf-8") == text:
        return False
    path.write_text(text, "utf-8")
    return True


def check_rows(settings: Settings, folder: Path) -> None:
    """Raises ConfigError where rows.yaml does not say what params.yaml says."""
    path = folder / "rows.yaml"
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; {MEND}")
    try:
        told = load_yaml(path.read_text("utf-8"))
    except yaml.YAMLError:
        raise ConfigError(f"{path}: not YAML; {MEND}") from None
    if told != {"graph": settings.graph.model_dump(mode="json")}:
        mend = MEND_BEFORE if EXPERIMENT in os.environ else MEND
        raise ConfigError(f"{path}: the rows of params.yaml have changed since; {mend}")


def profile_folders(root: Path = Path()) -> dict[str, Path]:
    """Profile -> the folder whose profile.yaml names it, for every pipeline of the project."""
    found: dict[str, Path] = {}
    for path in [root / "profile.yaml", *sorted((root / "profiles").glob("*/profile.yaml"))]:
        if path.is_file() and (
            name := re.search(r"^profile: (\S+)", path.read_text("utf-8"), re.M)
        ):
            found.setdefault(name[1], path.parent)
    return found


def first_profile(root: Path = Path()) -> str:
    """The profile of the root, for what is the same under all. Raises ConfigError outside a
    project, and in a folder of it."""
    path = root / "profile.yaml"
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; run from the project's root")
    way = re.search(r"^root: (.+)$", path.read_text("utf-8"), re.M)
    if way and way[1].strip() != ".":
        raise ConfigError(f"{path}: that of one profile; run from the project's root, {way[1]}")
    return next(iter(profile_folders(root)))


def row_command(profile: str, row: str, seed: int | None = None, root: Path = Path()) -> str:
    """The command that trains and evaluates a row, at its first seed unless another is named."""
    words = {"ROW": row, "SEED": seed, "PROFILE": profile}
    if profile == first_profile(root):
        del words["PROFILE"]
    return " ".join(["make row", *(f"{n}={w}" for n, w in words.items() if w is not None)])


def graph_target(profile: str, stage: str, root: Path = Path()) -> str:
    """What DVC calls a stage of a profile from the project's root."""
    folder = profile_folders(root).get(profile, Path())
    return stage if folder == Path() else f"{folder / 'dvc.yaml'}:{stage}"
