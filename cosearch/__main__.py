"""Small commands beside the graph; ``python -m cosearch --help`` lists them."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SCOPE = "core_1, core_3, core_5, all_1, all_3 or all_5: the part, and how many seeds"


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
    show.add_argument("--scope", required=True, help=SCOPE)
    results = add("results", _results, "copy the tables of a finished run into the documents")
    results.add_argument("--profile", default="tiny")
    results.add_argument("--scope", required=True, help=SCOPE)
    check = add("check", _check, "check params.yaml for every profile")
    check.add_argument("--profile", default="tiny")
    add("rows", _rows, "write rows.yaml, which DVC reads, for every profile")
    models = add("models", _models, "record the hashes of a profile's model folders")
    models.add_argument("--profile", required=True)
    add("status", _status, "say what runs, where it is, and what died")
    fetch = add("fetch", _fetch, "models and data of a profile, from pinned revisions")
    fetch.add_argument("--profile", required=True)
    doctor = add("doctor", _doctor, "say what this machine can run, and what it lacks")
    doctor.add_argument("--profile", default="tiny")
    plan = add("plan", _plan, "tokens, memory, hours and cost of a profile")
    plan.add_argument("--profile", required=True)
    plan.add_argument("--gpu", help="a kind of plan.gpus")
    plan.add_argument("--count", type=int, help="number of GPUs")
    plan.add_argument("--seeds", type=int, default=1, help="seeds of every row (default 1)")
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


def _show(chosen: argparse.Namespace) -> None:
    from cosearch.commands.show import show_tables

    show_tables(chosen.profile, chosen.scope)


def _results(chosen: argparse.Namespace) -> None:
    from cosearch.commands.results import write_results

    write_results(chosen.profile, chosen.scope)


def _check(chosen: argparse.Namespace) -> None:
    from cosearch.commands.rows import check_all

    check_all(chosen.profile)
    print("params.yaml: every key, value and reference is good")


def _rows(chosen: argparse.Namespace) -> None:
    from cosearch.commands.rows import write_all

    print("\n".join(write_all()))


def _models(chosen: argparse.Namespace) -> None:
    from cosearch.commands.models import record

    print("\n".join(record(chosen.profile)))


def _status(chosen: argparse.Namespace) -> None:
    from cosearch.commands.status import show_status

    show_status()


def _fetch(chosen: argparse.Namespace) -> None:
    from cosearch.commands.fetch import fetch_profile

    fetch_profile(chosen.profile)


def _doctor(chosen: argparse.Namespace) -> None:
    from cosearch.commands.doctor import diagnose

    if not diagnose(chosen.profile):
        sys.exit(1)


def _plan(chosen: argparse.Namespace) -> None:
    from cosearch.commands import plan

    if chosen.calibrate:
        plan.print_habits(chosen.profile, chosen.seed)
    elif chosen.check is not None:
        plan.print_check(chosen.profile, chosen.check)
    else:
        plan.print_plan(
            chosen.profile, chosen.gpu, chosen.count, seeds=chosen.seeds, rows=chosen.rows
        )


def _init(chosen: argparse.Namespace) -> None:
    from cosearch.commands.init import make_profile

    made = make_profile(
        chosen.name, chosen.questions, chosen.corpus, like=chosen.like, kind=chosen.kind
    )
    print("\n".join(made.lines()))


if __name__ == "__main__":
    main()
