"""Who follows a training: it is told where each round stands, and times the parts of a round."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from cosearch.run.stage import Stage
from cosearch.train.idle import idle_roles


@dataclass(frozen=True, slots=True)
class Observer:
    """Follows a training. It changes no result."""

    report: Callable[[int, str, Mapping[str, float]], None]
    """Called with the round's number (from 0), where it stands (``rollout``, ``update``,
    ``done``), and its metrics once it is done."""
    phase: Callable[[str], AbstractContextManager[None]]
    """Opens a context around a named part of a round, to time it."""
    moved: Callable[[int], None]
    """Called with the bytes of weights that a hand-over has moved."""


def observer_of(stage: Stage, rounds: int, shown: tuple[str, ...]) -> Observer:
    """The stage as an observer of ``rounds`` rounds; its progress shows the metrics ``shown``."""

    def report(number: int, standing: str, metrics: Mapping[str, float]) -> None:
        note = " ".join(f"{name}={metrics[name]:.3f}" for name in shown if name in metrics)
        stage.round(number + 1, metrics)
        for role in idle_roles(metrics):
            stage.progress.say(
                f"{stage.title}: round {number + 1} trained the {role} on nothing, because no"
                " sample of it had an advantage"
            )
        done = number + (standing == "done")
        stage.progress.show(stage.title, done, rounds, note or standing)

    return Observer(report, stage.phase, stage.move)
