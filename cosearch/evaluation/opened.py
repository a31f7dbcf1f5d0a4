"""A system that is open for questions: where its models come from, and how it plays a question."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cosearch.core.observe import Pipeline
from cosearch.core.seeds import derive
from cosearch.params import rows
from cosearch.params.derived import BASE
from cosearch.params.settings import Settings
from cosearch.rollouts.collect import Play
from cosearch.rollouts.pipelines import roles_under
from cosearch.rollouts.policy import Policy
from cosearch.rollouts.roles import open_policies
from cosearch.rollouts.trained import Trained, read_trained
from cosearch.rollouts.wiring import Parts, greedy_player


@dataclass(frozen=True, slots=True)
class OpenSystem:
    """The parameter blocks of a system, its policies by role, and what starts a trajectory. Close
    the policies with ``policy.serving``."""

    parts: Parts
    policies: Mapping[str, Policy]
    play: Play


def start_of(base: Parts, system: rows.System, needed: Path) -> Trained:
    """The trained models of a system's variant, or the untrained models that the system names."""
    if system.variant != BASE:
        return read_trained(needed)
    models: dict[str, str] = {role: base.model(name) for role, name in system.models.items()}
    return Trained(models, 0, None)


def open_system(
    settings: Settings,
    row: rows.Evaluation,
    trained: Trained,
    around: Callable[[Pipeline], Pipeline] = tuple,
) -> OpenSystem:
    """The system of a row with the models of ``trained``, as evaluation plays it. ``around`` may
    add stages to its pipeline that change nothing, such as one that tells what it sees."""
    system = settings.system(row.system)
    parts = Parts.of(settings, settings.overrides_of(row.system))
    folders = {role: trained.models[role] for role in roles_under(system.ranker)}
    policies = open_policies(parts, system.ranker, folders)
    seed = derive(row.seed, "evaluate")
    play = greedy_player(parts, system.method, system.ranker, policies, seed, around)
    return OpenSystem(parts, policies, play)
