"""``python -m cosearch show``: prints the tables of a finished run, as the pipeline wrote them."""

from pathlib import Path

from rich.markdown import Markdown

from cosearch.commands.console import open_console
from cosearch.files.artifacts import Paths
from cosearch.params.rows_file import profile_folders
from cosearch.params.settings import load_settings

LAST = ("main_", "oracle_", "comparisons")
"""How the names of the tables begin that are printed last, where a terminal shows them first."""
LEFT_OUT = "paper_check"
"""Tells of the paper's numbers, so it is the same after every run."""


def show_tables(profile: str, scope: str) -> None:
    """Print the tables of a scope, and the path of its report.

    Raises ValueError where no tables are written.
    """
    paths, console = Paths(profile), open_console()
    folders = paths.tables(scope), paths.oracle_gap(scope)
    files = [file for folder in folders for file in folder.glob("*.md") if file.stem != LEFT_OUT]
    if not files:
        raise ValueError(f"{folders[0]}: no tables; {_advice(profile, scope)}")
    for file in sorted(files, key=lambda file: (_place(file.stem), file.stem)):
        console.print(Markdown(file.read_text("utf-8")))
    console.print(f"report: {paths.report(scope) / 'report.html'}")


def _advice(profile: str, scope: str) -> str:
    """The command that makes the tables, if profile and scope are there."""
    scopes = load_settings(profile).graph.scopes
    if scope not in scopes:
        return f"--scope is one of {', '.join(scopes)}"
    folder = profile_folders().get(profile, Path("profiles") / profile)
    return f"run `dvc repro {'' if folder == Path() else f'{folder}/dvc.yaml:'}report@{scope}`"


def _place(name: str) -> int:
    """0 for a table that comes first, else the place in ``LAST`` plus 1."""
    return next((place for place, head in enumerate(LAST, 1) if name.startswith(head)), 0)
