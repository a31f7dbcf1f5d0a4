"""Writes the metrics of each round for the trackers that ``runtime.scalars`` names.

Each tracker runs behind a bounded queue on a thread of its own, so no round waits for a server.
"""

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from cosearch.run.events import Began, Ended, Event, RoundEnded
from cosearch.run.monitors.queue import Courier

QUEUE_SIZE = 1000
LAST_SECONDS = 30.0
"""Seconds that a stage waits at its end for the queued metrics, and again for the end itself."""
PROJECT = "cosearch"


class Tracker(Protocol):
    """Keeps the metrics of one stage. Its methods may raise and may wait."""

    def begin(self, stage: str, profile: str) -> None:
        """Open a run named after the stage; called once, before the first metrics."""
        ...

    def write(self, number: int, metrics: Mapping[str, float]) -> None:
        """Keep the metrics of round ``number``, from 1."""
        ...

    def end(self, failed: bool) -> None:
        """Close the run."""
        ...


class TensorBoard:
    """A folder of event files for each stage."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, stage: str, profile: str) -> None:
        """Open the run."""
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(self._folder / profile / stage))

    def write(self, number: int, metrics: Mapping[str, float]) -> None:
        """Keep the metrics of a round."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, number)
        self._writer.flush()

    def end(self, failed: bool) -> None:
        """Close the run."""
        self._writer.close()


class MLflow:
    """A run of the experiment ``cosearch``, at MLFLOW_TRACKING_URI or else in a SQLite file."""

    def __init__(self, folder: Path) -> None:
        self._place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder / 'mlflow.db'}"
        self._folder = folder

    def begin(self, stage: str, profile: str) -> None:
        """Open the run."""
        from mlflow import MlflowClient

        self._folder.mkdir(parents=True, exist_ok=True)
        self._client: Any = MlflowClient(tracking_uri=self._place)
        found = self._client.get_experiment_by_name(PROJECT)
        experiment = found.experiment_id if found else self._client.create_experiment(PROJECT)
        run = self._client.create_run(experiment, run_name=stage, tags={"profile": profile})
        self._run: str = run.info.run_id

    def write(self, number: int, metrics: Mapping[str, float]) -> None:
        """Keep the metrics of a round."""
        for name, value in metrics.items():
            self._client.log_metric(self._run, name, value, step=number)

    def end(self, failed: bool) -> None:
        """Close the run."""
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")


class WandB:
    """A run of the project ``cosearch``: in files, or on the server with WANDB_MODE=online."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, stage: str, profile: str) -> None:
        """Open the run."""
        import wandb

        self._folder.mkdir(parents=True, exist_ok=True)
        self._run: Any = wandb.init(
            project=PROJECT,
            name=stage,
            group=profile,
            dir=str(self._folder),
            mode=os.environ.get("WANDB_MODE", "offline"),
            settings=wandb.Settings(silent=True),
        )

    def write(self, number: int, metrics: Mapping[str, float]) -> None:
        """Keep the metrics of a round."""
        self._run.log(dict(metrics), step=number)

    def end(self, failed: bool) -> None:
        """Close the run."""
        self._run.finish(exit_code=int(failed))


TRACKERS: Mapping[str, tuple[str, Callable[[Path], Tracker]]] = {
    "tensorboard": ("tensorboardX", TensorBoard),
    "mlflow": ("mlflow", MLflow),
    "wandb": ("wandb", WandB),
}
"""Name in params.yaml, which is also the name of the extra -> its package, and the tracker."""


class Scalars:
    """Hands the metrics of each round to a tracker. A stage without rounds opens no run.

    ``folder`` is for what the tracker keeps on this disk; ``say`` prints a warning.

    Raises:
        ValueError: the package of the tracker is not installed.
    """

    def __init__(self, tracker: str, folder: Path, say: Callable[[str], None]) -> None:
        package, made = TRACKERS[tracker]
        if find_spec(package) is None:
            raise ValueError(
                f"runtime.scalars names {tracker}, and its package {package} is not there: pip"
                f" install 'cosearch[{tracker}]' (in a clone: make setup EXTRAS=cpu,dev,{tracker})"
            )
        self._tracker = made(folder)
        self._began = Began("", "")
        self._open = False
        self._courier: Courier[Event] = Courier(self._deliver, say, size=QUEUE_SIZE)

    def tell(self, event: Event) -> None:
        """Queue the metrics when a round ends; wait for the queue when the stage ends."""
        match event:
            case Began():
                self._began = event
            case RoundEnded():
                self._courier.put(event)
            case Ended():
                self._courier.close(event, LAST_SECONDS)

    def _deliver(self, event: Event) -> None:
        match event:
            case RoundEnded():
                if not self._open:
                    self._tracker.begin(self._began.stage, self._began.profile)
                    self._open = True
                self._tracker.write(event.number, event.metrics)
            case Ended() if self._open:
                self._tracker.end(bool(event.cause))
