"""``python -m cosearch row``: makes one row through DVC's graph, and shows it.

DVC takes a target that matches nothing for no target at all, and then runs the whole project. So
the names are checked here, and DVC gets exact ones.
"""

import signal
import subprocess
import sys

from cosearch.commands.here import show_rows
from cosearch.params.rows_file import check_rows, graph_target, profile_folders
from cosearch.params.settings import Settings, load_settings


def make_row(name: str, profile: str, *, seed: int, jobs: int) -> int:
    """Train the row if it learns, evaluate it, and check its ranker, with ``jobs`` stages at once;
    then print it beside its reference. Returns the exit code of the run.

    Raises ValueError for an unknown row, seed or profile, before any work.
    """
    settings, folder = load_settings(profile), profile_folders().get(profile)
    if folder is None:
        raise ValueError(f"profile {profile}: no profile.yaml names it")
    check_rows(settings, folder)
    targets = [graph_target(profile, stage) for stage in row_stages(settings, name, seed)]
    run = [sys.executable, "-m", "flows.side_by_side", "--jobs", str(jobs), *targets]
    if code := run_to_end(run):
        return code
    show_rows(profile, name)
    return 0


def row_stages(settings: Settings, name: str, seed: int) -> list[str]:
    """The stages of a row at a seed. Raises ValueError for an unknown row or seed."""
    settings.system(name)
    if seed not in settings.graph.seeds:
        last = settings.graph.seeds[-1]
        raise ValueError(f"seed {seed}: the rows have the seeds 0 to {last} (seed_count)")
    row = f"{name}-{seed}"
    kinds = ("train", "evaluate", "gate") if row in settings.graph.trainings else ("evaluate",)
    return [f"{kind}@{row}" for kind in kinds]


def run_to_end(command: list[str]) -> int:
    """Run a command that handles Ctrl-C itself, and return its exit code."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
