"""``python -m cosearch status``: tells which stages run, how far they are, and which have died, and
what was edited since the identities of the stages were written.

The command reads the leases of the stages and needs no server.
"""

import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cosearch.files.artifacts import Paths
from cosearch.params.reading import ConfigError
from cosearch.params.rows_file import first_profile, profile_folders
from cosearch.params.settings import load_settings
from cosearch.run.identity import instances, outdated, title_of
from cosearch.run.lease import read_lease
from cosearch.run.lock import has_outputs, is_of, read_lock

RUNS = Path(".runs")
IsOver = Callable[[str, str], bool]
"""(profile, stage) -> whether nothing is left to do for it."""


def status(runs: Path, now: float, is_over: IsOver = lambda profile, title: False) -> list[str]:
    """One line per stage that runs, stopped or died, in name order. ``now`` is in epoch seconds.

    A stage that does not run and that ``is_over`` has no line.
    """
    lines = []
    for path in sorted(runs.glob("*/*/lease.json")):
        profile, title = path.parent.relative_to(runs).parts
        try:
            said, alive = read_lease(path.parent)
        except (OSError, ValueError):  # the stage has just ended, or the file is no lease
            continue
        if alive or not is_over(profile, title):
            lines.append(f"{profile}/{title}: {_line(said, alive, now)}")
    return lines


def show_status() -> None:
    """Print the ``status`` of the project in the current folder."""
    first_profile()
    lines = status(RUNS, time.time(), over_in())
    print("\n".join(lines) if lines else "nothing runs, and nothing was left unfinished")
    for line in edits():
        print(line)


def over_in(root: Path = Path()) -> IsOver:
    """Says of a stage (profile, title) that did not end well whether nothing is left to do for it:
    its profile or row is gone, or its outputs are there, made under its present identity."""
    folders = profile_folders(root)

    @cache
    def stages(profile: str) -> set[str]:
        settings = load_settings(profile, root / "params.yaml")
        return {"base_models", "identity", *(title_of(*one) for one in instances(settings))}

    lock = cache(lambda profile: read_lock(folders[profile]))

    def is_over(profile: str, title: str) -> bool:
        try:
            if profile not in folders or title not in stages(profile):
                return True
        except ConfigError:  # told after the stages; until it is mended, every stage is shown
            return False
        entry = lock(profile).get(title, {})
        return is_of(entry, Paths(profile).identity(title)) and has_outputs(entry)

    return is_over


def edits(root: Path = Path()) -> list[str]:
    """One line per edit since the identities of a profile were written, with the number of stages
    that run again for it."""
    lines = []
    for profile in profile_folders(root):
        paths = Paths(profile)
        if not paths.identity("data").is_file():
            continue
        settings = load_settings(profile, root / "params.yaml")
        for words, stages in outdated(settings, paths).items():
            more = f" and {len(stages) - 1} more stages" if len(stages) > 1 else ""
            lines.append(f"{profile}: {words}: {stages[0]}{more} will run again")
    return lines


def _line(said: Mapping[str, Any], alive: bool, now: float) -> str:
    if alive:
        heard = _clock(now - said["updated"])
        return f"runs, {_where(said)}, {_eta(said)}heard of {heard} ago, pid {said['pid']}"
    again = "the same command goes on from its state"
    if "error" in said:
        return f"stopped, {_where(said)}: {said['error']}"
    return f"DIED {_clock(now - said['updated'])} ago, {_where(said)}, pid {said['pid']}; {again}"


def _where(said: Mapping[str, Any]) -> str:
    counted = f"at {said['done']} of {said['total']}, " if "done" in said else ""
    return f"{counted}{said['note']}"


def _eta(said: Mapping[str, Any]) -> str:
    """The remaining time at the mean rate since the process first reported progress."""
    if "done" not in said:
        return ""
    first, since = said["first"]
    gone = said["done"] - first
    if not gone:
        return ""
    left = (said["total"] - said["done"]) * (said["reached"] - since) / gone
    return f"about {_clock(left)} left, "


def _clock(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
