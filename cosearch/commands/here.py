"""The rows that were made on this machine, whatever they are: ``python -m cosearch show --scope
here`` prints them, ``report`` writes a report of them. No stage of the graph does this, because a
stage would have to wait for rows that nobody asked for."""

from collections.abc import Iterable

from rich.markdown import Markdown

from cosearch.commands.console import open_console
from cosearch.files.artifacts import Paths
from cosearch.params.rows import HERE
from cosearch.params.rows_file import row_command
from cosearch.params.settings import Settings, load_settings
from cosearch.report.write import write_report
from cosearch.statistics.results import ResultSet
from cosearch.tables.beside import beside_table
from cosearch.tables.evidence import gather


def show_rows(profile: str, row: str | None = None) -> None:
    """Print the rows that are here, each beside the first of its ``references`` that is here too;
    or ``row`` alone, beside all of them.

    Raises ValueError for an unknown row, where no row is here, and for changed files.
    """
    settings = load_settings(profile)
    if row is not None:
        settings.system(row)
    results = gather(settings, Paths(profile), HERE).results
    shown = results.known(settings.systems if row is None else [row])
    others = {name: results.known(references(settings, name)) for name in shown}
    if row is None:
        others = {name: found[:1] for name, found in others.items()}
    if others:
        open_console().print(Markdown(beside_table(results, others).markdown()))
    wanted = settings.rows if row is None else [row, *references(settings, row)]
    print_absent(results, wanted, profile)


def report_rows(profile: str) -> None:
    """Write artifacts/PROFILE/report/here, and print where it lies and which rows it lacks.

    Raises ValueError where no row is here, and for changed files.
    """
    settings, paths = load_settings(profile), Paths(profile)
    found = gather(settings, paths, HERE)
    write_report(paths, found, paths.report(HERE))
    print_absent(found.results, settings.rows, profile)
    print(f"report: {paths.report(HERE) / 'report.html'}")


def references(settings: Settings, name: str) -> list[str]:
    """The rows that a row is held against: the one that it is like, then those that it stands
    against in ``comparisons`` of params.yaml."""
    entry = settings.file.rows.get(name)
    found = [entry.like] if entry is not None and entry.like is not None else []
    found += [one.right for one in settings.file.comparisons if one.left == name]
    return list(dict.fromkeys(found))


def print_absent(results: ResultSet, wanted: Iterable[str], profile: str) -> None:
    """Print a line that names those of ``wanted`` that were not made here, if there are any."""
    if names := [name for name in wanted if not results.knows_all(name)]:
        more = f"; `{row_command(profile, names[0])}` makes the first one"
        print(f"not made here: {', '.join(names)}{more}")
