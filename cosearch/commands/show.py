"""``python -m cosearch show``: prints the tables of a finished run."""

from cosearch.commands.console import open_console
from cosearch.files.artifacts import Paths
from cosearch.params.settings import load_settings
from cosearch.tables.evidence import gather
from cosearch.tables.publish import (
    ablation_tables,
    behaviour_tables,
    oracle_gap_tables,
    result_tables,
    retriever_table,
)


def show_tables(profile: str, scope: str) -> None:
    """Print every table of a scope, and where its report lies."""
    settings, paths = load_settings(profile), Paths(profile)
    found = gather(settings, paths, scope)
    console = open_console()
    behaviour = [retriever_table(paths, found.scope), *behaviour_tables(found)]
    results = [*ablation_tables(found), *oracle_gap_tables(found), *result_tables(found)]
    for table in [*behaviour, *results]:
        console.print(table.terminal())
    console.print(f"report: {paths.report(scope) / 'report.html'}")
