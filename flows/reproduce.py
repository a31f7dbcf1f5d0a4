"""The graph as a Prefect flow: ``python -m flows.reproduce TARGET``, with a server running.

DVC's own graph, one task for each stage, each a ``dvc repro --single-item``; the task links to the
flow run that the stage itself reports as. DVC alone decides what runs, and nothing here needs
Prefect's database to go on later. Outputs and dvc.lock are those of a plain ``dvc repro``.
"""

import argparse
import os
import re
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefect import flow, runtime, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows.graph import DVC
from flows.processes import Processes
from flows.schedule import Schedule, kind
from flows.side_by_side import LOGS, planned, run_schedule, stoppable

PARENT_RUN, PARENT_TASK = "COSEARCH_FLOW_RUN", "COSEARCH_TASK_RUN"
"""Environment variables that tell a stage the flow run and the task run to which it belongs."""


@task(name="stage", cache_policy=NO_CACHE, persist_result=False)
def stage_task(stage: str, processes: Processes, command: Sequence[str] = ()) -> State[Any]:
    """One stage, or another command under its name; the cause of a failure is the state's word."""
    variables = {PARENT_RUN: runtime.flow_run.name, PARENT_TASK: runtime.task_run.id}
    if command:
        cause = processes.execute(stage, command, variables)
    else:
        cause = processes.run(stage, variables)
    message = f"log in {processes.log(stage)}"
    return Failed(message=f"{cause}; {message}") if cause else Completed(message=message)


@task(name="stage", cache_policy=NO_CACHE, persist_result=False)
def note_unchanged(stage: str) -> State[Any]:
    """A stage that needs no run, for the graph's sake."""
    return Completed(name="Unchanged", message=f"{stage} is as dvc.lock says")


@dataclass(slots=True)
class TaskRunner:
    """Runs each stage as a task of the current flow. Threads may call it, because it keeps the
    context of the flow in which it was created."""

    upstream: Mapping[str, frozenset[str]]
    processes: Processes
    states: dict[str, State[Any]] = field(default_factory=dict)
    context: Context = field(default_factory=copy_context)

    def run(self, stage: str) -> str:
        """Run the stage to its end. Returns the cause of a failure, or "" after a success."""
        state = self.context.copy().run(self.call, stage_task, stage, self.processes)
        return (state.message or "failed") if not state.is_completed() else ""

    def note(self, stage: str) -> None:
        """Show a stage that does not run. Prefect calls it NotReady if a stage before it has
        failed."""
        self.call(note_unchanged, stage)

    def stop(self) -> None:
        """End every running stage."""
        self.processes.stop()

    def call(self, what: Any, stage: str, *arguments: Any) -> State[Any]:
        """Run a task after the tasks of the stages before it, and return its final state."""
        before = [self.states[name] for name in self.upstream[stage] if name in self.states]
        named = what.with_options(name=kind(stage), task_run_name=stage)
        state: State[Any] = named(stage, *arguments, wait_for=before, return_state=True)
        self.states[stage] = state
        return state


@flow(name="reproduce", persist_result=False)
def reproduce(
    profile: str = "tiny",
    targets: list[str] | None = None,
    overrides: list[str] | None = None,
    jobs: int = 2,
) -> State[Any]:
    """Bring ``targets`` of a profile up to date, ``jobs`` stages at once.

    With ``overrides``, such as ``presets.paper.reward.gamma=0.3``, the run is a DVC
    experiment beside the working folder, which stays as it is; ``python -m cosearch
    experiments`` lists its results.
    """
    names = [f"{folder_of(profile)}{name}" for name in targets or ["report@core_1"]]
    processes = Processes(LOGS)
    if overrides:
        return experiment(names, overrides, processes)
    with planned(names) as schedule:
        runner = TaskRunner(schedule.graph.upstream, processes)
        for name in schedule.graph.order:
            if name in schedule.done:
                runner.note(name)
        run_schedule(schedule, runner, processes.log, jobs)
        for name in filter(schedule.dropped.get, schedule.graph.order):
            runner.note(name)
    return conclude(schedule)


def experiment(names: Sequence[str], overrides: Sequence[str], processes: Processes) -> State[Any]:
    """Run ``dvc exp run`` as one task. Its stages report to the server as usual."""
    values = [word for override in overrides for word in ("--set-param", override)]
    title = re.sub(r"[^\w-]+", "-", runtime.flow_run.name)
    command = [*DVC[:-1], "exp", "run", "--temp", "--name", title, *values, *names]
    runner = TaskRunner({title: frozenset()}, processes)
    state = runner.call(stage_task, title, processes, command)
    if not state.is_completed():
        return Failed(message=f"{title}: {state.message}")
    create_markdown_artifact(
        f"`python -m cosearch experiments` lists it, `dvc exp branch {title} {title}` makes it a"
        " branch to merge.",
        key="experiment",
    )
    return Completed(message=f"experiment {title}")


def conclude(schedule: Schedule) -> State[Any]:
    """The final state of the flow. After a success an artifact lists the reports."""
    reports = [report for name in schedule.graph.order if (report := report_of(name))]
    if reports and not schedule.failed:
        create_markdown_artifact("\n".join(f"- `{path}`" for path in reports), key="reports")
    if schedule.failed:
        name, cause = next(iter(schedule.failed.items()))
        return Failed(message=f"{len(schedule.failed)} failed, the first is {name}: {cause}")
    return Completed(message=f"{len(schedule.done)} stages up to date")


def report_of(stage: str) -> Path | None:
    """Path of the page that a report stage writes, or None for another stage."""
    folder, _, name = stage.rpartition("dvc.yaml:")
    if kind(name) != "report":
        return None
    scope = name.partition("@")[2]
    return Path("artifacts", profile_of(Path(folder)), "report", scope, "report.html").resolve()


def profile_of(folder: Path) -> str:
    """Name of the profile whose graph lies in ``folder``. Raises ValueError if it names none."""
    found = re.search(r"^profile: (\S+)", (folder / "profile.yaml").read_text("utf-8"), re.M)
    if found is None:
        raise ValueError(f"{folder / 'profile.yaml'}: names no profile")
    return found[1]


def folder_of(profile: str) -> str:
    """Prefix of the stages of a profile: the path of its dvc.yaml, or "" for the profile of the
    root.

    Raises ValueError if the profile has no dvc.yaml.
    """
    if profile_of(Path()) == profile:
        return ""
    if not Path("profiles", profile, "dvc.yaml").is_file():
        raise ValueError(f"profiles/{profile}: no dvc.yaml; make it with `make mini` or the like")
    return f"profiles/{profile}/dvc.yaml:"


def alive(url: str) -> bool:
    """True if the server answers within ten seconds. A busy server takes a few."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=10.0) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def main() -> int:
    """Run from the command line. The exit code is 0, or 1 after a failure."""
    parser = argparse.ArgumentParser(prog="python -m flows.reproduce", description=__doc__)
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="stage of dvc.yaml")
    parser.add_argument("--profile", default=profile_of(Path()))
    parser.add_argument("--jobs", type=int, default=2, help="stages at once (default 2)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    arguments = parser.parse_args()
    url = os.environ.get("PREFECT_API_URL", "")
    if not alive(url):
        print(f"error: no Prefect server at {url or 'PREFECT_API_URL'}; start one with `make ui`")
        return 1
    with stoppable():
        state = reproduce(
            profile=arguments.profile,
            targets=arguments.targets,
            overrides=arguments.overrides,
            jobs=arguments.jobs,
            return_state=True,
        )
    print(f"{state.name}: {state.message}")
    return 0 if state.is_completed() else 1


if __name__ == "__main__":
    sys.exit(main())
