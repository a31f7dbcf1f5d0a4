"""Small commands beside the graph; ``python -m cosearch --help`` lists them."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

PROFILE = "of params.yaml: tiny, mini, paper, or one of your own"
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
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], None], about: str) -> Any:
        command = commands.add_parser(
            name, help=about, description=f"{about[0].upper()}{about[1:]}."
        )
        command.set_defaults(run=run)
        return command

    show = add("show", _show, "print the tables of a finished run")
    show.add_argument("--profile", required=True)
    show.add_argument("--scope", required=True, help=SCOPE)
    results = add("results", _results, "copy the tables of a finished run into the documents")
    results.add_argument("--profile", default="tiny", help=PROFILE)
    results.add_argument("--scope", required=True, help=SCOPE)
    check = add("check", _check, "check params.yaml for every profile")
    check.add_argument("--profile", default="tiny", help=PROFILE)
    add("rows", _rows, "write rows.yaml, which DVC reads, for every profile")
    models = add("models", _models, "record the hashes of a profile's model folders")
    models.add_argument("--profile", required=True, help=PROFILE)
    add("status", _status, "say what runs, where it is, and what died")
    fetch = add("fetch", _fetch, "fetch models and data of a profile, from pinned revisions")
    fetch.add_argument("--profile", required=True, help=PROFILE)
    doctor = add("doctor", _doctor, "say what this machine can run, and what it lacks")
    doctor.add_argument("--profile", default="tiny", help=PROFILE)
    _of_plan(add)
    _of_init(add)
    return parser


def _of_plan(add: Callable[..., Any]) -> None:
    plan = add("plan", _plan, "say what a profile takes: tokens, memory, hours and cost")
    plan.add_argument("--profile", required=True, help=PROFILE)
    plan.add_argument("--gpu", help="a kind of GPU, of plan.gpus in plan.yaml")
    plan.add_argument("--count", type=int, help="number of GPUs (default: plan.count)")
    plan.add_argument("--seeds", type=int, default=1, help="seeds of each row (default 1)")
    plan.add_argument("--rows", action="store_true", help="a line for every row")
    plan.add_argument("--calibrate", action="store_true", help="print what rollouts show instead")
    plan.add_argument("--seed", type=int, default=0, help="of --calibrate (default 0)")
    plan.add_argument(
        "--check", type=int, metavar="SEED", help="hold predicted tokens against those of a seed"
    )


def _of_init(add: Callable[..., Any]) -> None:
    init = add("init", _init, "make a profile over your own questions and corpus")
    add_file = partial(init.add_argument, required=True, type=Path, metavar="FILE.jsonl")
    add_file("--questions", help='lines such as {"question": "...", "answer": ["..."]}')
    add_file("--corpus", help='lines such as {"id": "...", "title": "...", "text": "..."}')
    init.add_argument("--name", required=True, help="of the new profile")
    init.add_argument(
        "--like", default="mini", metavar="PROFILE", help="to copy the rest from (default mini)"
    )
    init.add_argument(
        "--kind",
        default="multi",
        choices=("single", "multi"),
        help="whether a question needs one search or more (default multi)",
    )


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
