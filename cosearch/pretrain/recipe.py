"""Every constant of base training, and what the rest of the pipeline fixes for it."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

from cosearch.data.world import Triple, build_world
from cosearch.data.world_lexicon import LexiconSize
from cosearch.params import blocks
from cosearch.pretrain.batches import Curriculum
from cosearch.pretrain.documents import Simulation
from cosearch.pretrain.encoder import EncoderRecipe
from cosearch.pretrain.fit import FitRecipe, ModelShape
from cosearch.pretrain.traces import TraceScript

RecipeT = TypeVar("RecipeT")


_ROWS = {
    # bamboogle's pairs of relations are never trained on.
    "nq": 150,
    "triviaqa": 150,
    "popqa": 120,
    "hotpotqa": 180,
    "2wikimultihopqa": 180,
    "musique": 180,
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Every constant of base training; ``base_models`` of params.yaml overrides any of them."""

    seed: int = 1
    lexicon: LexiconSize = field(default_factory=LexiconSize)
    encoder: EncoderRecipe = field(default_factory=EncoderRecipe)
    shape: ModelShape = field(default_factory=ModelShape)
    small: ModelShape = field(default_factory=lambda: ModelShape(96, 2, 3, 192))
    """Shape of the small agent and ranker, the simulator and the cross-encoder."""
    script: TraceScript = field(default_factory=TraceScript)
    simulation: Simulation = field(default_factory=Simulation)
    curriculum: Curriculum = field(default_factory=Curriculum)
    ranker: FitRecipe = field(default_factory=lambda: FitRecipe(800, 32, 3.0e-3))
    agent: FitRecipe = field(default_factory=lambda: FitRecipe(1800, 32, 3.0e-3))
    ranker_small: FitRecipe = field(default_factory=lambda: FitRecipe(450, 32, 3.0e-3))
    agent_small: FitRecipe = field(default_factory=lambda: FitRecipe(1000, 32, 3.0e-3))
    shared: FitRecipe = field(default_factory=lambda: FitRecipe(2100, 32, 3.0e-3))
    """Two thirds of the steps are the agent's, one third the ranker's."""
    simulator: FitRecipe = field(default_factory=lambda: FitRecipe(1200, 32, 3.0e-3))
    cross_encoder: FitRecipe = field(default_factory=lambda: FitRecipe(600, 16, 3.0e-3))
    """A batch holds that many lists, each as long as the curriculum's last size."""
    rows: Mapping[str, int] = field(default_factory=lambda: dict(_ROWS))
    """Tasks drawn per fictional encyclopaedia."""
    passes: int = 4
    """How often the tasks of one encyclopaedia are used before the next one is drawn."""
    pool: int = 10
    """Batches of trajectories sorted by length at a time."""
    measured: int = 200
    """Tasks of an encyclopaedia that nothing was trained on, on which the models are measured."""


@dataclass(frozen=True, slots=True)
class Interface:
    """What the rest of the pipeline fixes: prefixes, prompts, and the facts not to be taught."""

    query_prefix: str
    passage_prefix: str
    templates: str
    agent_document: str
    ranker_document: str
    avoid: AbstractSet[Triple]


def override(recipe: RecipeT, block: Mapping[str, Any]) -> RecipeT:
    """``recipe`` with the values of ``block``. Raises ValueError for a key it does not have."""
    known = [part.name for part in fields(recipe)]  # type: ignore[arg-type]
    if unknown := sorted(set(block) - set(known)):
        raise ValueError(f"base_models: no {unknown[0]!r}; there are {', '.join(known)}")
    values = {name: _value(getattr(recipe, name), value) for name, value in block.items()}
    return replace(recipe, **values)  # type: ignore[type-var]


def _value(current: Any, value: Any) -> Any:
    if is_dataclass(current):
        return override(current, value)
    return tuple(value) if isinstance(value, list) else value


def world_interface(
    data: blocks.Data, encoder: blocks.Encoder, agent: blocks.Agent, ranker: blocks.Ranker
) -> Interface:
    """The interface of a profile that plays in a generated world."""
    sets = {name: rows.model_dump() for name, rows in data.sets.items()}
    return Interface(
        encoder.query_prefix,
        encoder.passage_prefix,
        agent.templates,
        agent.document,
        ranker.document,
        build_world(sets, data.seed).encyclopaedia.triples(),
    )
