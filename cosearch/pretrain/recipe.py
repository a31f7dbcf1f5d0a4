"""All constants of base training, and the values that the rest of the pipeline fixes."""

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
    # Training has no bamboogle, so its pairs of relations are new in the evaluation.
    "nq": 150,
    "triviaqa": 150,
    "popqa": 120,
    "hotpotqa": 180,
    "2wikimultihopqa": 180,
    "musique": 180,
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """All constants of base training. ``base_models`` in params.yaml overrides any of them."""

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
    """Two thirds of the steps train the agent's part, one third the ranker's."""
    simulator: FitRecipe = field(default_factory=lambda: FitRecipe(1200, 32, 3.0e-3))
    cross_encoder: FitRecipe = field(default_factory=lambda: FitRecipe(600, 16, 3.0e-3))
    """A batch holds 16 lists, each as long as the last number of the curriculum."""
    rows: Mapping[str, int] = field(default_factory=lambda: dict(_ROWS))
    """Number of tasks per fictional encyclopaedia, by family."""
    passes: int = 4
    """Number of times that training uses an encyclopaedia's tasks before it draws the next one."""
    pool: int = 10
    """Number of batches whose rows are sorted by length together."""
    measured: int = 200
    """Number of tasks in the exams, all of an encyclopaedia that no training uses."""


@dataclass(frozen=True, slots=True)
class Interface:
    """Values that the rest of the pipeline fixes: prefixes, templates, and the facts to avoid."""

    query_prefix: str
    passage_prefix: str
    templates: str
    agent_document: str
    ranker_document: str
    avoid: AbstractSet[Triple]


def override(recipe: RecipeT, block: Mapping[str, Any]) -> RecipeT:
    """A copy of ``recipe`` with the values of ``block``. Raises ValueError for an unknown key."""
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
    """The interface of a profile whose data are a generated world."""
    sets = {name: rows.model_dump() for name, rows in data.sets.items()}
    return Interface(
        encoder.query_prefix,
        encoder.passage_prefix,
        agent.templates,
        agent.document,
        ranker.document,
        build_world(sets, data.seed).encyclopaedia.triples(),
    )
