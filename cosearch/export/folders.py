"""Exported folders, written beside their place and put there whole."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from cosearch.engines.policies.build import build_codec, check_plain_loading
from cosearch.export.cards import Cards
from cosearch.export.finished import FinishedRow
from cosearch.export.prompts import role_prompts
from cosearch.files.artifacts import ROLLOUT_SCHEMA, move_folder, named, write_json, write_text

CARD = "README.md"
EXPLAINED = Path("docs/rollouts.md")
"""The page that explains the columns of rollout files."""


def check_free(target: Path) -> None:
    """Raises ValueError for a place that holds something."""
    if target.is_file() or (target.is_dir() and any(target.iterdir())):
        raise ValueError(f"{target}: there is something already; name a new or empty folder")


def write_models(row: FinishedRow, cards: Cards, target: Path) -> list[str]:
    """Write a folder for each model of the row, with cards. Returns the names of the folders.

    Raises ValueError for a model whose tokenizer transformers would load otherwise than it is.
    """
    folders = {"_and_".join(roles): (path, roles) for path, roles in row.folders().items()}
    with beside(target) as aside:
        for name, (path, roles) in folders.items():
            prompts = [role_prompts(row, role) for role in roles]
            for one in prompts:
                check_plain_loading(build_codec(path, one.chat_options), [one.example])
            shutil.copytree(path, aside / name, ignore=shutil.ignore_patterns(".*", CARD))
            write_json(aside / name / "prompts.json", {one.role: one.record() for one in prompts})
            write_text(aside / name / CARD, cards.model(name, prompts))
        write_text(aside / CARD, cards.row({name: roles for name, (_, roles) in folders.items()}))
        write_json(aside / "settings.json", row.told)
    return list(folders)


def write_rollouts(row: FinishedRow, cards: Cards, target: Path) -> list[str]:
    """Write the row's rollouts and evaluation as a data set, with its card. Returns the names of
    its configurations."""
    files: dict[str, dict[str, Path]] = {"rollouts": {}}
    with beside(target) as aside:
        for source in row.rollouts:
            files["rollouts"][source.stem] = _copy(source, aside, "rollouts")
        for source in row.evaluated:
            whole = pl.read_parquet_schema(source) == ROLLOUT_SCHEMA
            splits = files.setdefault("rollouts" if whole else source.stem, {})
            splits["evaluation"] = _copy(source, aside, "evaluation")
        _, _, columns = EXPLAINED.read_text("utf-8").partition("\n\n")
        write_text(aside / CARD, cards.rollouts(files, columns))
        write_json(aside / "settings.json", row.told)
    return list(files)


def _copy(source: Path, aside: Path, part: str) -> Path:
    place = Path(part) / source.name
    (aside / part).mkdir(exist_ok=True)
    shutil.copyfile(source, aside / place)
    return place


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """A folder beside ``target`` that takes its place when the block ends, and goes if it fails."""
    check_free(target)
    aside = target.resolve().with_name(f".{target.resolve().name}.new")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        with named(target):
            aside.mkdir(parents=True)
        yield aside
        move_folder(aside, target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
