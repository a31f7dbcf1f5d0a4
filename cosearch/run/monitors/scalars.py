"""Writes the metrics of each round as TensorBoard scalars, with tensorboardX."""

from pathlib import Path

from cosearch.run.events import Ended, Event, RoundEnded


class Scalars:
    """Writes each metric of a round under its name. The step is the number of the round.

    Raises:
        ValueError: the package is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise ValueError("runtime.scalars needs the extra `scalars`: tensorboardX") from None
        self._writer = SummaryWriter(str(folder))

    def tell(self, event: Event) -> None:
        """Write the metrics when a round ends; close the file when the stage ends."""
        match event:
            case RoundEnded():
                for name, value in event.metrics.items():
                    self._writer.add_scalar(name, value, event.number)
                self._writer.flush()
            case Ended():
                self._writer.close()
