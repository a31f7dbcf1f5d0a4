"""``python -m cosearch export``: hands a finished row on, as models or as a data set."""

from dataclasses import dataclass
from pathlib import Path

from cosearch.export.cards import Cards
from cosearch.export.finished import read_finished
from cosearch.export.folders import check_free, write_models, write_rollouts
from cosearch.params.settings import load_settings


@dataclass(frozen=True)
class Export:
    """What is exported, and where to. ``push``: a repository of the hub, or None. ``license``: what
    the caller says of the licence, or None."""

    profile: str
    row: str
    target: Path
    rollouts: bool
    push: str | None
    license: str | None


def export(order: Export) -> list[str]:
    """Write the folder, and upload it if it is to be. Returns a line for each thing that was made.

    Raises ValueError before anything is written where the row or the place is not fit.
    """
    from cosearch.export.push import check_login, upload

    check_free(order.target)
    if order.push:
        check_login()
    settings = load_settings(order.profile)
    row = read_finished(settings, order.row)
    cards = Cards(settings, row, order.license)
    write = write_rollouts if order.rollouts else write_models
    names = write(row, cards, order.target)
    lines = [
        f"{order.target}: {', '.join(names)} of {order.row}; read {order.target / 'README.md'}"
    ]
    if order.push:
        kind = "dataset" if order.rollouts else "model"
        lines.append(f"uploaded: {upload(order.target, order.push, kind)}")
    return lines
