"""Small commands beside the graph; ``python -m cosearch --help`` lists them."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from cosearch.commands.status import show_status
from cosearch.files.artifacts import SCOPES, Paths
from cosearch.params.settings import load_settings

SHOWN = ("main_large", "main_small", "ablations_large", "grid", "comparisons")
"""Tables that the README shows, beside Table 1."""
MARKS = ("<!-- results: begin -->", "<!-- results: end -->")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; errors are one line."""
    chosen = _parser().parse_args(arguments)
    try:
        chosen.run(chosen)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {' '.join(str(error).split())}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cosearch", description=__doc__)
    commands = parser.add_subparsers(required=True)

    def add(name: str, run: Callable[[argparse.Namespace], None], about: str) -> Any:
        command = commands.add_parser(name, help=about)
        command.set_defaults(run=run)
        return command

    show = add("show", _show, "print the tables of a finished run")
    show.add_argument("--profile", required=True)
    show.add_argument("--scope", required=True, choices=SCOPES)
    readme = add("readme", _readme, "put the tables of a finished run into README.md")
    readme.add_argument("--profile", default="tiny")
    readme.add_argument("--scope", required=True, choices=SCOPES)
    check = add("check", _check, "check params.yaml for every profile")
    check.add_argument("--profile", default="tiny")
    add("status", _status, "say what runs, where it is, and what died")
    fetch = add("fetch", _fetch, "models and data of a profile, from pinned revisions")
    fetch.add_argument("--profile", required=True)
    doctor = add("doctor", _doctor, "say what this machine can run, and what it lacks")
    doctor.add_argument("--profile", default="tiny")
    plan = add("plan", _plan, "tokens, memory, hours and cost of a profile")
    plan.add_argument("--profile", required=True)
    plan.add_argument("--gpu", help="a kind of plan.gpus")
    plan.add_argument("--count", type=int, help="number of GPUs")
    plan.add_argument("--rows", action="store_true", help="a line for every row")
    plan.add_argument("--calibrate", action="store_true", help="habits from rollouts of --seed")
    plan.add_argument("--seed", type=int, default=0)
    plan.add_argument("--check", type=int, metavar="SEED", help="predicted and measured tokens")
    init = add("init", _init, "make a profile over your own questions and corpus")
    init.add_argument("--questions", required=True, type=Path, metavar="FILE.jsonl")
    init.add_argument("--corpus", required=True, type=Path, metavar="FILE.jsonl")
    init.add_argument("--name", required=True, help="name of the profile")
    init.add_argument("--like", default="mini", help="profile to copy the rest from")
    init.add_argument("--kind", default="multi", choices=("single", "multi"), help="of question")
    return parser


def readme_block(profile: str, scope: str) -> str:
    """The README's results: the written tables as they are."""
    paths = Paths(profile)
    files = [paths.tables(scope) / f"{name}.md" for name in SHOWN]
    files.append(paths.oracle_gap(scope) / "oracle_large.md")
    return "\n".join(file.read_text("utf-8") for file in files)


def write_readme(profile: str, scope: str, path: Path = Path("README.md")) -> None:
    """Replace what stands between the two marks. Raises ValueError where they are missing."""
    before, begin, rest = path.read_text("utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise ValueError(f"{path}: no line {MARKS[0]!r} followed by {MARKS[1]!r}")
    block = f"{begin}\n\n{readme_block(profile, scope)}\n{end}"
    path.write_text(f"{before}{block}{after}", "utf-8")


def _readme(chosen: argparse.Namespace) -> None:
    write_readme(chosen.profile, chosen.scope)


def _check(chosen: argparse.Namespace) -> None:
    load_settings(chosen.profile)
    print("params.yaml: every key, value and reference is good")


def _status(chosen: argparse.Namespace) -> None:
    show_status()


def _fetch(chosen: argparse.Namespace) -> None:
    from cosearch.data.fetch_hub import download, fetch
    from cosearch.params import blocks

    profile, settings = chosen.profile, load_settings(chosen.profile)
    if profile not in settings.file.hub:
        raise ValueError(f"hub: no {profile!r}; there is nothing to fetch for this profile")
    folder = Path(settings.section(blocks.Data).folder or ".")
    fetch(settings.file.hub[profile], Path(), folder, download, print)


def _doctor(chosen: argparse.Namespace) -> None:
    from cosearch.commands.doctor import examine, real_probes, show_findings

    findings = examine(load_settings(chosen.profile), Paths(chosen.profile), real_probes())
    if not show_findings(findings, chosen.profile, _console()):
        sys.exit(1)


def _plan(chosen: argparse.Namespace) -> None:
    from cosearch.plan.outlook import Outlook, calibrate, check
    from cosearch.plan.tables import check_table, habits_lines, show_plan

    settings, paths = load_settings(chosen.profile), Paths(chosen.profile)
    if chosen.calibrate:
        print("\n".join(habits_lines(calibrate(settings, paths, chosen.seed))))
    elif chosen.check is not None:
        tolerance = settings.file.plan.tolerance
        found = check(settings, paths, chosen.check)
        _console().print(check_table(found, tolerance))
        if any(one.relative > tolerance for row in found.values() for one in row):
            raise ValueError(f"a prediction is off by more than {tolerance:.0%}")
    else:
        show_plan(Outlook.of(settings, chosen.gpu, chosen.count), _console(), rows=chosen.rows)


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160)


def _init(chosen: argparse.Namespace) -> None:
    from cosearch.commands.init import make_profile

    found = make_profile(
        chosen.name, chosen.questions, chosen.corpus, like=chosen.like, kind=chosen.kind
    )
    print("\n".join(found.lines()))


def _show(chosen: argparse.Namespace) -> None:
    from cosearch.tables.evidence import gather
    from cosearch.tables.publish import (
        ablation_tables,
        behaviour_tables,
        oracle_gap_tables,
        result_tables,
        retriever_table,
    )

    profile, scope = chosen.profile, chosen.scope
    settings, paths = load_settings(profile), Paths(profile)
    found = gather(settings, paths, scope)
    console = _console()
    behaviour = [retriever_table(paths, found.scope), *behaviour_tables(found)]
    results = [*ablation_tables(found), *oracle_gap_tables(found), *result_tables(found)]
    for table in [*behaviour, *results]:
        console.print(table.terminal())
    console.print(f"report: {paths.report(scope) / 'report.html'}")


if __name__ == "__main__":
    main()
