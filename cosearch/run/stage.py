"""What every stage's page begins and ends with: arguments, checked parameters, progress, a record
of the run, and errors told in one line."""

import argparse
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from cosearch.engines.policies.build import serve_rank
from cosearch.files.artifacts import SCALARS, Paths, write_json
from cosearch.files.model_record import check_models
from cosearch.params import blocks
from cosearch.params.rows_file import check_rows, profile_folders
from cosearch.params.settings import Settings, load_settings
from cosearch.run.events import (
    Began,
    DocumentPublished,
    Ended,
    Entered,
    Left,
    Monitor,
    Monitors,
    RoundBegan,
    RoundEnded,
    TablePublished,
)
from cosearch.run.identity import Identity, check_instance, identity_of, title_of
from cosearch.run.lease import Lease
from cosearch.run.makers import maker_of
from cosearch.run.monitors.choice import monitor_of
from cosearch.run.origin import DECIDING, versions
from cosearch.run.pins import hold_pins, this_processor
from cosearch.run.progress import Progress
from cosearch.run.reads import READS
from cosearch.run.terminal import write_plainly

AXES: dict[str, Callable[[str], Any]] = {
    "row": str,
    "rows": str,
    "seed": int,
    "scope": str,
}


PACKAGES = ("torch", "transformers", "polars", "numpy", "faiss-cpu", "faiss-gpu", "dvc")
"""Packages whose versions stand in the record of a run."""


class Stopped(SystemExit):
    """The stage was told to end."""


@dataclass(frozen=True)
class Stage:
    """One run of one stage. ``axes`` holds its place in the graph, such as variant and seed."""

    name: str
    settings: Settings
    paths: Paths
    axes: dict[str, Any]
    progress: Progress
    identity: Identity
    seconds: dict[str, float] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    monitor: Monitor = field(default_factory=Monitors)

    @property
    def title(self) -> str:
        """The stage's name in the graph: ``train@cosearch-0``."""
        return title_of(self.name, self.axes)

    def sign(self, note: str) -> None:
        """Show that long work goes on."""
        self.progress.pulse(self.title, note)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A named part of the work: watched, and timed in the run record."""
        self.monitor.tell(Entered(name))
        failed = True
        try:
            with self.clock(name):
                yield
            failed = False
        finally:
            self.monitor.tell(Left(name, failed))

    @contextmanager
    def clock(self, name: str) -> Iterator[None]:
        """Add the time spent inside to ``name``'s seconds in the run record."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def move(self, size: int) -> None:
        """Add the bytes of a hand-over to the run record."""
        self.moved["hand_over"] = self.moved.get("hand_over", 0) + size

    def round(self, number: int, metrics: Mapping[str, float]) -> None:
        """Tell that round ``number``, from 1, goes on, or with its metrics that it has ended."""
        self.monitor.tell(RoundEnded(number, metrics) if metrics else RoundBegan(number))

    def publish(self, title: str, document: Path) -> None:
        """Show a Markdown document that the stage has written to those who watch."""
        self.monitor.tell(DocumentPublished(title, document.read_text("utf-8"), str(document)))

    def publish_table(self, title: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Show a table to those who watch; rows are column -> value."""
        self.monitor.tell(TablePublished(title, rows))


def run_stage(name: str, doc: str, page: Callable[[Stage], None], *axes: str) -> None:
    """Parse the command line, check the parameters, run ``page`` and record the run.

    A wrong parameter, a missing or damaged file and the like end with one line and exit code 1, a
    signal that ends a program with one line and 128 plus its number.
    """
    parser = argparse.ArgumentParser(prog=f"python -m stages.{name}", description=doc)
    parser.add_argument("--profile", required=True, help="profile of params.yaml")
    for axis in axes:
        parser.add_argument(f"--{axis}", required=True, type=AXES[axis])
    write_plainly()
    arguments = parser.parse_args()
    for each in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(each) != signal.SIG_IGN:
            signal.signal(each, _stop)
    try:
        settings = load_settings(arguments.profile)
        hold_pins(settings)
        if _serves(settings):
            return
        _run(name, page, settings, arguments, axes)
    except Stopped:
        print(f"{name}: stopped; start it again to go on", file=sys.stderr)
        raise
    except (ValueError, OSError) as error:
        sys.exit(f"error: {name}: {' '.join(str(error).split())}")


def _serves(settings: Settings) -> bool:
    """Whether this was another rank of a launched job, which has now done its part."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return False
    if settings.section(blocks.Train).engine != "deepspeed":
        raise ValueError("a launcher started several ranks, and train.engine takes one: torch")
    return serve_rank()


def _run(
    name: str,
    page: Callable[[Stage], None],
    settings: Settings,
    arguments: argparse.Namespace,
    axes: tuple[str, ...],
) -> None:
    portable = settings.section(blocks.Runtime).portable
    settings.asked.clear()
    check_rows(settings, profile_folders().get(arguments.profile, Path()))
    values = {axis: getattr(arguments, axis) for axis in axes}
    paths = Paths(arguments.profile)
    check_place(paths.root)
    title = title_of(name, values)
    identity = Identity(title, {}, {}, {})
    if name in READS:
        check_instance(settings, name, values)
        identity = identity_of(settings, name, values)
        identity.check(paths.identity(title))
        check_models(identity.models)
        settings = settings.only(READS[name].names)
        settings.asked.update({"runtime"}.intersection(READS[name].names))  # its pins hold already
    with Lease(paths.run(title, "lease").parent) as lease, Progress() as progress:
        watching = monitor_of(
            paths.journal(title),
            trackers=settings.file.runtime.scalars,
            folder=SCALARS,
            say=progress.say,
        )
        monitor = Monitors((lease, watching))
        progress.follow = monitor.tell
        stage = Stage(name, settings, paths, values, progress, identity, monitor=monitor)
        with _watched(stage), stage.clock("total"):
            page(stage)
    record = {
        "stage": title,
        "parameters_read": sorted(settings.asked),
        "seconds": {phase: round(value, 3) for phase, value in stage.seconds.items()},
        "bytes": stage.moved,
        "python": platform.python_version(),
        "packages": versions(PACKAGES),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "made_by": maker_of(this_processor(), portable, versions(DECIDING)),
    }
    write_json(paths.timing(title), record)


def check_place(outputs: Path) -> None:
    """Raises ValueError where a link leads the folder ``outputs``, or a folder in it, out of the
    project: DVC refuses such outputs, and it does so when they are computed."""
    project = Path.cwd().resolve()
    for place in (outputs, *sorted(outputs.glob("*/"))):
        if not place.resolve().is_relative_to(project):
            raise ValueError(
                f"{place}: a link to {place.resolve()}, and DVC records no outputs outside the"
                f" project; mount that folder there (mount --bind), or link .runs instead"
            )


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(128 + number)


@contextmanager
def _watched(stage: Stage) -> Iterator[None]:
    """Tell how the stage begins and ends, however it ends."""
    stage.monitor.tell(Began(stage.title, stage.paths.profile))
    try:
        yield
    except Stopped:
        stage.monitor.tell(Ended("stopped; start it again to go on", stopped=True))
        raise
    except BaseException as error:
        stage.monitor.tell(Ended(" ".join(str(error).split()) or type(error).__name__))
        raise
    stage.monitor.tell(Ended(""))
