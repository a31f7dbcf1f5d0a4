"""``python -m cosearch show``: prints the tables of a finished run, as the pipeline wrote them."""

from rich.markdown import Markdown

from cosearch.commands.console import open_console
from cosearch.files.artifacts import Paths
from cosearch.params.reading import entry_of
from cosearch.params.rows_file import graph_target
from cosearch.params.settings import load_settings

LAST = ("main_", "oracle_", "comparisons")
"""How the names of the tables begin that are printed last, where a terminal shows them first."""
LEFT_OUT = "paper_check"
"""Tells of the paper's numbers, so it is the same after every run."""


def show_tables(profile: str, scope: str) -> None:
    """Print the tables of a scope, and the path of its report.

    Raises ValueError for an unknown profile or scope, and where no tables are written.
    """
    check_scope(profile, scope)
    paths, console = Paths(profile), open_console()
    folders = paths.tables(scope), paths.oracle_gap(scope)
    files = [file for folder in folders for file in folder.glob("*.md") if file.stem != LEFT_OUT]
    if not files:
        target = graph_target(profile, f"report@{scope}")
        raise ValueError(f"{folders[0]}: no tables yet; run `dvc repro {target}`")
    for file in sorted(files, key=lambda file: (_place(file.stem), file.stem)):
        console.print(Markdown(file.read_text("utf-8")))
    console.print(f"report: {paths.report(scope) / 'report.html'}")


def check_scope(profile: str, scope: str) -> None:
    """Raises ConfigError for a profile or a scope that params.yaml does not have."""
    entry_of(load_settings(profile).graph.scopes, "--scope", scope)


def _place(name: str) -> int:
    """0 for a table that comes first, else the place in ``LAST`` plus 1."""
    return next((place for place, head in enumerate(LAST, 1) if name.startswith(head)), 0)
