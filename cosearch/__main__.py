"""Small commands beside the graph; ``python -m cosearch --help`` lists them."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cosearch.run.terminal import as_typed, write_plainly

LACKS = (
    "error: the commands need the packages of the pipeline: pip install 'cosearch[cpu]', or"
    " 'cosearch[gpu]' for NVIDIA GPUs (in a clone: make setup); cosearch.core needs none"
)
PROFILE = "of params.yaml: tiny, mini, paper, or one of your own"
SCOPE = "core_1, core_3, core_5, all_1, all_3 or all_5: the part, and how many seeds"
SHOWN = f"{SCOPE}; or here: the rows that were made on this machine"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; errors are one line."""
    if find_spec("pydantic") is None:  # every command reads params.yaml with it
        sys.exit(LACKS)
    write_plainly()
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

    for group in (_of_results, _of_rows, _of_machine, _of_plan, _of_models, _of_init):
        group(add)
    return parser


def _of_results(add: Callable[..., Any]) -> None:
    show = add("show", _show, "print the tables of a finished run")
    show.add_argument("--profile", default="tiny", help=PROFILE)
    show.add_argument("--scope", required=True, help=SHOWN)
    show.add_argument("--row", help="with --scope here: this row alone")
    report = add("report", _report, "write a report of the rows that were made on this machine")
    report.add_argument("--profile", default="tiny", help=PROFILE)
    add("experiments", _experiments, "say what each DVC experiment changed, and its numbers")
    results = add("results", _results, "copy the tables of a finished run into the documents")
    results.add_argument("--profile", default="tiny", help=PROFILE)
    results.add_argument("--scope", required=True, help=SCOPE)
    verify = add("verify", _verify, "compare the results on this machine with committed ones")
    verify.add_argument("--profile", default="tiny", help=PROFILE)
    verify.add_argument("--scope", default="core_1", help=f"{SCOPE} (default core_1)")
    verify.add_argument(
        "--against", default="HEAD", metavar="REVISION|FOLDER", help="who holds them (default HEAD)"
    )


def _of_rows(add: Callable[..., Any]) -> None:
    row = add("row", _row, "train and evaluate one row, and show it beside its reference")
    row.add_argument("name", help="of params.yaml; show --scope here lists them")
    row.add_argument("--profile", default="tiny", help=PROFILE)
    row.add_argument("--seed", type=int, default=0)
    row.add_argument("--jobs", type=int, default=2, help="stages at once (default 2)")
    check = add("check", _check, "check params.yaml for every profile")
    check.add_argument("--profile", default="tiny", help=PROFILE)
    add("rows", _rows, "write rows.yaml, which DVC reads, for every profile")
    new = add("add-row", _add_row, "add a row to params.yaml that is like another row")
    new.add_argument("name", help="lower case letters, digits and underscores")
    new.add_argument("changes", nargs="+", metavar="KEY=VALUE", help="as in reward.gamma=0")
    new.add_argument("--like", required=True, metavar="ROW", help="the row to start from")
    new.add_argument("--label", help="what tables and figures call it")
    new.add_argument("--part", default="more", choices=("core", "more"), help="default: more")
    new.add_argument("--tables", default="", help="tables in which it stands, joined by commas")
    gone = add("remove-row", _remove_row, "remove a row, its outputs and the state of its runs")
    gone.add_argument("name")
    gone.add_argument("--yes", action="store_true", help="do not ask")


def _of_machine(add: Callable[..., Any]) -> None:
    models = add("models", _models, "record the hashes of a profile's model folders")
    models.add_argument("--profile", required=True, help=PROFILE)
    add("status", _status, "say what runs, where it is, and what died")
    fetch = add("fetch", _fetch, "fetch models and data of a profile, from pinned revisions")
    fetch.add_argument("--profile", required=True, help=PROFILE)
    doctor = add("doctor", _doctor, "say what this machine can run, and what it lacks")
    doctor.add_argument("--profile", default="tiny", help=PROFILE)


def _of_models(add: Callable[..., Any]) -> None:
    ask = add("ask", _ask, "ask evaluated rows a question and watch them search and answer")
    ask.add_argument("question", nargs="?", help="without one: questions are read line by line")
    ask.add_argument("--row", required=True, metavar="ROW-SEED", help="such as cosearch-0")
    ask.add_argument("--against", metavar="ROW-SEED", help="a second row, side by side")
    ask.add_argument("--profile", default="tiny", help=PROFILE)
    export = add("export", _export, "hand on the models of a finished row, or its rollouts")
    export.add_argument("--row", required=True, help="NAME-SEED, such as cosearch-0")
    export.add_argument("--to", required=True, type=Path, metavar="DIR")
    export.add_argument("--profile", default="tiny", help=PROFILE)
    export.add_argument("--rollouts", action="store_true", help="a data set in place of the models")
    export.add_argument("--license", help="of the models or the data, where it is another")
    export.add_argument("--push", metavar="REPO", help="upload to this repository of the hub")


def _of_plan(add: Callable[..., Any]) -> None:
    plan = add("plan", _plan, "say what a profile takes: tokens, memory, hours and cost")
    plan.add_argument("--profile", required=True, help=PROFILE)
    plan.add_argument("--gpu", help="a kind of GPU, of plan.gpus in plan.yaml")
    plan.add_argument("--count", type=int, help="number of GPUs (default: plan.count)")
    plan.add_argument("--seeds", type=int, default=1, help="seeds of each row (default 1)")
    plan.add_argument("--rows", action="store_true", help="a line for every row")
    plan.add_argument("--simulate", type=Path, metavar="FOLDER", help="a round of this training")
    plan.add_argument("--calibrate", action="store_true", help="print what rollouts show instead")
    plan.add_argument("--seed", type=int, default=0, help="of --calibrate (default 0)")
    plan.add_argument(
        "--check", type=int, metavar="SEED", help="hold predicted tokens against those of a seed"
    )


def _of_init(add: Callable[..., Any]) -> None:
    init = add("init", _init, "make a profile over your own questions and corpus")
    add_file = partial(init.add_argument, required=True, type=Path, metavar="FILE")
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
    from cosearch.params.rows import HERE

    if chosen.scope == HERE:
        from cosearch.commands.here import show_rows

        show_rows(chosen.profile, chosen.row)
    elif chosen.row is None:
        from cosearch.commands.show import show_tables

        show_tables(chosen.profile, chosen.scope)
    else:
        raise ValueError("--row goes with --scope here")


def _report(chosen: argparse.Namespace) -> None:
    from cosearch.commands.here import report_rows

    report_rows(chosen.profile)


def _row(chosen: argparse.Namespace) -> None:
    from cosearch.commands.row import make_row

    if code := make_row(chosen.name, chosen.profile, seed=chosen.seed, jobs=chosen.jobs):
        sys.exit(code)


def _experiments(chosen: argparse.Namespace) -> None:
    from cosearch.commands.experiments import show_experiments

    show_experiments()


def _results(chosen: argparse.Namespace) -> None:
    from cosearch.commands.results import write_results

    write_results(chosen.profile, chosen.scope)


def _verify(chosen: argparse.Namespace) -> None:
    from cosearch.commands.verify import verify

    sys.exit(verify(chosen.profile, chosen.scope, chosen.against))


def _check(chosen: argparse.Namespace) -> None:
    from cosearch.commands.rows import check_all

    told = check_all(chosen.profile)
    print("\n".join(["params.yaml: every key, value and reference is good", *told]))


def _rows(chosen: argparse.Namespace) -> None:
    from cosearch.commands.rows import write_all

    print("\n".join(write_all()))


def _add_row(chosen: argparse.Namespace) -> None:
    from cosearch.commands.add_row import add_row

    tables = [name for name in chosen.tables.split(",") if name]
    made = add_row(
        chosen.name,
        chosen.like,
        chosen.changes,
        label=chosen.label,
        part=chosen.part,
        tables=tables,
    )
    print("\n".join(made))


def _remove_row(chosen: argparse.Namespace) -> None:
    from cosearch.commands.remove_row import remove_row

    remove_row(chosen.name, ask=not chosen.yes)


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
    elif chosen.simulate is not None:
        plan.print_simulation(chosen.profile, chosen.gpu, chosen.count, chosen.simulate)
    else:
        plan.print_plan(
            chosen.profile, chosen.gpu, chosen.count, seeds=chosen.seeds, rows=chosen.rows
        )


def _ask(chosen: argparse.Namespace) -> None:
    from cosearch.commands.ask import ask_rows

    rows = [row for row in (chosen.row, chosen.against) if row is not None]
    question = None if chosen.question is None else as_typed(chosen.question)
    ask_rows(chosen.profile, rows, question)


def _init(chosen: argparse.Namespace) -> None:
    from cosearch.commands.init import make_profile

    made = make_profile(
        chosen.name, chosen.questions, chosen.corpus, like=chosen.like, kind=chosen.kind
    )
    print("\n".join(made.lines()))


def _export(chosen: argparse.Namespace) -> None:
    from cosearch.commands.export import Export, export

    order = Export(
        profile=chosen.profile,
        row=chosen.row,
        target=chosen.to,
        rollouts=chosen.rollouts,
        push=chosen.push,
        license=chosen.license,
    )
    print("\n".join(export(order)))


if __name__ == "__main__":
    main()
