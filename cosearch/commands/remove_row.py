"""``python -m cosearch remove-row``: removes a row, its outputs and the state of its runs.

The command lists all of it and asks before it removes anything. It keeps DVC's cache, so a row that
is added again under the same values is not trained again.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosearch.commands.rows import write_all
from cosearch.files.artifacts import SCALARS, Paths, write_text
from cosearch.params.checks import named_rows
from cosearch.params.editing import entry_lines, remove_entry
from cosearch.params.reading import entry_of
from cosearch.params.rows import PARTS
from cosearch.params.rows_file import first_profile, graph_target, profile_folders
from cosearch.params.settings import Settings, load_settings
from cosearch.run.identity import title_of
from cosearch.run.lease import is_running
from cosearch.run.lock import LOCK, has_outputs, is_of, read_lock

STAGES = ("train", "gate", "evaluate")
"""The stages that have an instance for a row."""
SHOWING = ("oracle_gap@", "tables@", "report@")
"""The stages whose outputs show rows, for a scope."""
LOGS = Path(".runs") / "logs"
"""Folder of the logs of flows.side_by_side, those of a profile below the folder of its graph."""
KEPT = "DVC's cache keeps the outputs; `dvc gc --workspace` frees all that no present stage uses"


@dataclass(frozen=True)
class Traces:
    """What a row has left in one profile, whose graph lies in ``folder``: entries of dvc.lock, and
    files and folders that are there."""

    profile: str
    folder: Path
    entries: Sequence[str]
    places: Sequence[Path]

    def lines(self) -> Iterator[str]:
        """What ``remove`` removes, one line for each."""
        yield from (f"{self.folder / LOCK}: {entry}" for entry in self.entries)
        yield from (f"{place}{'/' if place.is_dir() else ''}" for place in self.places)

    def remove(self) -> None:
        """Remove all of it."""
        for place in self.places:
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink()
        if not self.entries:
            return
        text = (self.folder / LOCK).read_text("utf-8")
        for entry in self.entries:
            text = remove_entry(text, "stages", entry)
        write_text(self.folder / LOCK, text)


def remove_row(name: str, *, ask: bool) -> None:
    """Remove the row ``name`` from the project in the current folder, after a question if ``ask``.

    Raises ValueError for a row that is not there, that runs now, or that something else names.
    """
    path, profile = Path("params.yaml"), first_profile()
    text, settings = path.read_text("utf-8"), load_settings(profile, path)
    entry_of(settings.file.rows, "rows", name)
    if users := list(named_by(settings, name)):
        raise ValueError(f"rows.{name} is named by {', '.join(users)}; change these first")
    edited = remove_entry(text, "rows", name)
    load_settings(profile, path, edited)
    found = [
        traces_of(Settings(settings.file, one), folder, name)
        for one, folder in profile_folders().items()
    ]
    first, last = entry_lines(text, "rows", name)
    print(f"params.yaml: rows.{name}, lines {first} to {last}, and what every rows.yaml says of it")
    for line in (line for traces in found for line in traces.lines()):
        print(line)
    print(KEPT)
    if ask and not agreed():
        raise ValueError("nothing was removed; answer y, or give --yes")
    for traces in found:
        traces.remove()
    write_text(path, edited)
    print("\n".join(write_all()))
    for traces in found:
        if traces.entries:
            renew(traces)


def agreed() -> bool:
    """Ask on the terminal; no answer is no."""
    try:
        return input("remove all of this? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def named_by(settings: Settings, name: str) -> Iterator[str]:
    """Paths in params.yaml that name a row or one of its evaluations."""
    every = [Settings(settings.file, profile) for profile in settings.file.profiles]
    own = {system for one in every for system in evaluations_of(one, name)}
    for place, other in named_rows(settings.file):
        if other in own and not place.startswith(f"rows.{name}."):
            yield place


def evaluations_of(settings: Settings, name: str) -> list[str]:
    """The systems of a row: itself, and its evaluations at other places of the K grid."""
    return [
        one for one, told in settings.systems.items() if one in (name, f"{name}_grid_{told.grid}")
    ]


def traces_of(settings: Settings, folder: Path, name: str) -> Traces:
    """What a row has left in a profile. Raises ValueError if one of its stages runs now."""
    paths, recorded = Paths(settings.profile), read_lock(folder)
    rows = [
        (system, seed)
        for system in evaluations_of(settings, name)
        for seed in range(settings.file.seed_count)
    ]
    titles = [title_of(stage, {"row": f"{s}-{seed}"}) for stage in STAGES for s, seed in rows]
    for title in titles:
        if is_running(paths.run(title, "lease").parent):
            raise ValueError(f"{settings.profile}/{title} runs now; wait for it or stop it")
    places = [place for system, seed in rows for place in _of_row(paths, system, seed)]
    places += [place for title in titles for place in _of_stage(paths, title)]
    places += [LOGS / folder / f"{title}.log" for title in titles]
    there = [place for place in places if place.exists()]
    return Traces(settings.profile, folder, [one for one in titles if one in recorded], there)


def _of_row(paths: Paths, system: str, seed: int) -> Iterator[Path]:
    for part in PARTS["all"]:
        yield paths.train(part, seed, system)
        yield paths.gate(part, seed, system)
        yield paths.evaluate(part, seed, system)
    yield paths.score(f"{system}-{seed}")


def _of_stage(paths: Paths, title: str) -> Iterator[Path]:
    yield paths.identity(title)
    yield paths.timing(title)
    yield paths.run(title, "lease").parent
    yield paths.journal(title)
    yield SCALARS / paths.profile / title  # of TensorBoard


def renew(traces: Traces) -> None:
    """Let DVC write the identities without the row, so that dvc.lock tells nothing of it, and say
    which tables were made with it."""
    target, paths = graph_target(traces.profile, "identity"), Paths(traces.profile)
    command = [sys.executable, "-m", "dvc", "repro", "-q", target]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        told = f"`dvc repro {target}` failed: {done.stderr or done.stdout}"
        raise ValueError(f"the row is removed, and the identities are as before: {told}")
    made = {
        title.partition("@")[2]
        for title, entry in read_lock(traces.folder).items()
        if title.startswith(SHOWING)
        and has_outputs(entry)
        and not is_of(entry, paths.identity(title))
    }
    for scope in sorted(made):
        again = graph_target(traces.profile, f"report@{scope}")
        print(f"tables of {scope} may show the row; to make them without it: dvc repro {again}")
