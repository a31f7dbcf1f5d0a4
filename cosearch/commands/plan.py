"""``python -m cosearch plan``: tokens, memory, hours and cost of a profile."""

from pathlib import Path

from cosearch.commands.console import open_console
from cosearch.files.artifacts import Paths
from cosearch.params.settings import load_settings
from cosearch.plan.outlook import Outlook, calibrate, check
from cosearch.plan.simulate import simulate
from cosearch.plan.tables import check_table, drives_table, habits_lines, show_plan


def print_plan(profile: str, gpu: str | None, count: int | None, *, seeds: int, rows: bool) -> None:
    """Print the plan of every row at its first ``seeds`` seeds, for ``count`` GPUs of a kind; None
    takes those of plan.yaml.

    With ``rows`` the first table has a line for every row, not one per stage and part.
    """
    settings = load_settings(profile).of_seeds(seeds)
    show_plan(Outlook.of(settings, gpu, count), open_console(), rows=rows)


def print_simulation(profile: str, gpu: str | None, count: int | None, folder: Path) -> None:
    """Print the rollout of one round under every driver, with the trajectories of the training in
    ``folder``."""
    outlook = Outlook.of(load_settings(profile), gpu, count)
    open_console().print(drives_table(simulate(outlook, folder)))


def print_habits(profile: str, seed: int) -> None:
    """Print the habits that the rollouts of ``seed`` show, as lines for params.yaml."""
    print("\n".join(habits_lines(calibrate(load_settings(profile), Paths(profile), seed))))


def print_check(profile: str, seed: int) -> None:
    """Print predicted and measured tokens of ``seed``'s trainings side by side.

    Raises:
        ValueError: a prediction is off by more than ``plan.tolerance``.
    """
    settings = load_settings(profile)
    tolerance = settings.file.plan.tolerance
    found = check(settings, Paths(profile), seed)
    open_console().print(check_table(found, tolerance))
    if any(one.relative > tolerance for row in found.values() for one in row):
        raise ValueError(f"a prediction is off by more than {tolerance:.0%}")
