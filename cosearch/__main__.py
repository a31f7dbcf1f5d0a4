"""Small commands beside the graph: ``python -m cosearch show | check``."""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console

from cosearch import config


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; errors are one line."""
    parser = argparse.ArgumentParser(prog="python -m cosearch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("show", help="print the tables of a finished run")
    show.add_argument("--profile", required=True)
    show.add_argument("--scope", required=True, help="seed_0 or all_seeds")
    check = commands.add_parser("check", help="check params.yaml for every profile")
    check.add_argument("--profile", default="tiny")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "show":
            _show(chosen.profile, chosen.scope)
        else:
            config.load(chosen.profile)
            print("params.yaml: every key, value and reference is good")
    except (ValueError, OSError) as error:
        sys.exit(f"error: {' '.join(str(error).split())}")


def _show(profile: str, scope: str) -> None:
    from cosearch.artifacts import Paths
    from cosearch.evaluation.publish import (
        SCOPES,
        behaviour_tables,
        gather,
        oracle_gap_table,
        result_tables,
        retriever_table,
    )

    settings, paths = config.load(profile), Paths(profile)
    found = gather(settings, paths, SCOPES[scope])
    console = Console(width=None if sys.stdout.isatty() else 160)
    tables = [*behaviour_tables(found), oracle_gap_table(found), *result_tables(found)]
    for table in [retriever_table(paths, found.scope), *tables]:
        console.print(table.terminal())
    console.print(f"report: {paths.report(scope) / 'report.html'}")


if __name__ == "__main__":
    main()
