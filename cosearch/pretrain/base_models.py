"""The shipped base models of the generated world: encoder, ranker and agent, from scratch.

One seeded script on one CPU thread. The world that is evaluated enters only to be avoided: none of
its facts is ever taught.
"""

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import torch

from cosearch import schema
from cosearch.artifacts import hash_file, write_json
from cosearch.core.seeds import derive
from cosearch.data.world import Triple, build_world, draw_encyclopaedia
from cosearch.data.world_lexicon import LexiconSize
from cosearch.pretrain.encoder import EncoderRecipe, TextEncoder, new_encoder, train_encoder
from cosearch.pretrain.fiction import Episode, draw_episodes
from cosearch.pretrain.fit import (
    Curriculum,
    FitRecipe,
    ModelShape,
    RankerBatches,
    agent_batches,
    fit,
    new_model,
)
from cosearch.pretrain.traces import Prompts, Script
from cosearch.pretrain.words import END, PAD, WordCodec, build_vocabulary, save_tokenizer

Report = Callable[[str, int, int, str], None]
"""Hears of a part of the work, steps done, steps in all and a note."""
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
    script: Script = field(default_factory=Script)
    curriculum: Curriculum = field(default_factory=Curriculum)
    ranker: FitRecipe = field(default_factory=lambda: FitRecipe(800, 32, 3.0e-3))
    agent: FitRecipe = field(default_factory=lambda: FitRecipe(1800, 32, 3.0e-3))
    rows: Mapping[str, int] = field(default_factory=lambda: dict(_ROWS))
    """Tasks drawn per fictional encyclopaedia."""
    passes: int = 4
    """How often the tasks of one encyclopaedia are used before the next one is drawn."""
    pool: int = 10
    """Batches of trajectories sorted by length at a time."""


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
    data: schema.Data, encoder: schema.Encoder, agent: schema.Agent, ranker: schema.Ranker
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


def build_base_models(
    folder: Path, recipe: Recipe, interface: Interface, report: Report
) -> dict[str, Any]:
    """Train the three models and write them under ``folder`` beside ``recipe.json``; return it."""
    school = _School(recipe, interface, report)
    encoder = school.train_encoder()
    school.save(encoder.model, folder / "encoder")
    ranker, beginner, ranker_accuracy = school.train_ranker(encoder)
    school.save(ranker, folder / "ranker")
    agent, agent_accuracy = school.train_agent(encoder, beginner)
    school.save(agent, folder / "agent")
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "recipe.json")
    record = {
        "recipe": asdict(recipe),
        # Teacher-forced, on the fictional rows of the last steps.
        "ranker_id_accuracy": ranker_accuracy,
        "agent_token_accuracy": agent_accuracy,
        "files": {path.relative_to(folder).as_posix(): hash_file(path) for path in files},
    }
    write_json(folder / "recipe.json", record)
    return record


class _School:
    """The three trainings over one vocabulary and one stream of fictional tasks each."""

    def __init__(self, recipe: Recipe, interface: Interface, report: Report) -> None:
        self._recipe, self._interface, self._report = recipe, interface, report
        self.codec = WordCodec(build_vocabulary(recipe.lexicon))
        self._prompts = Prompts(
            self.codec, interface.templates, interface.agent_document, interface.ranker_document
        )

    def train_encoder(self) -> TextEncoder:
        """The bi-encoder."""
        recipe = self._recipe.encoder
        torch.manual_seed(self._seed("encoder"))
        (pad,) = self.codec.tokens(PAD)
        model = new_encoder(recipe, len(self.codec.vocabulary), pad)
        prefixes = (self._interface.query_prefix, self._interface.passage_prefix)
        encoder = TextEncoder(model, self.codec, *prefixes)
        worlds = [
            draw_encyclopaedia(
                self._recipe.lexicon, self._seed("encoder", number), avoid=self._interface.avoid
            )
            for number in range(recipe.worlds)
        ]
        train_encoder(encoder, worlds, recipe, self._seed("encoder", "batches"))
        return encoder

    def train_ranker(self, encoder: TextEncoder) -> tuple[Any, Any, float]:
        """The ranker, a copy of it from when it first ranked full lists, and its accuracy."""
        recipe = self._recipe
        model = self._new_model("ranker")
        batches = RankerBatches(
            self._episodes(encoder, "ranker"),
            self._prompts,
            recipe.script,
            recipe.curriculum,
            recipe.ranker.batch,
            random.Random(self._seed("ranker", "rows")),
        )
        beginner: list[Any] = []
        meter = _Meter("ranker", recipe.ranker.steps, self._report)

        def on_step(step: int, loss: float, accuracy: float) -> None:
            batches.observe(accuracy)
            if batches.finished and not beginner:
                beginner.append(copy.deepcopy(model))
            meter(step, loss, accuracy, f"{batches.size} candidates")

        fit(model, iter(batches), recipe.ranker, on_step)
        if not beginner:
            raise ValueError(
                f"base_models.ranker.steps={recipe.ranker.steps}: the ranker got no further than"
                f" {batches.size} candidates"
            )
        return model, beginner[0], meter.mean()

    def train_agent(self, encoder: TextEncoder, model: Any) -> tuple[Any, float]:
        """The agent, grown from a beginner that can copy names, and its accuracy."""
        recipe = self._recipe
        batches = agent_batches(
            self._episodes(encoder, "agent"),
            self._prompts,
            recipe.script,
            recipe.agent.batch,
            recipe.pool,
            random.Random(self._seed("agent", "rows")),
        )
        meter = _Meter("agent", recipe.agent.steps, self._report)
        fit(model, batches, recipe.agent, meter)
        return model, meter.mean()

    def save(self, model: Any, folder: Path) -> None:
        """Write weights and tokenizer as an ordinary Hugging Face folder."""
        model.save_pretrained(folder)
        length = model.config.max_position_embeddings
        save_tokenizer(self.codec.vocabulary, folder, max_length=length)

    def _seed(self, *parts: int | str) -> int:
        return derive("base_models", self._recipe.seed, *parts)

    def _new_model(self, role: str) -> Any:
        torch.manual_seed(self._seed(role))
        pad, eos = self.codec.tokens(PAD, END)
        return new_model(self._recipe.shape, len(self.codec.vocabulary), pad=pad, eos=eos)

    def _episodes(self, encoder: TextEncoder, role: str) -> Iterator[Episode]:
        """Fictional tasks without end, one encyclopaedia after another."""
        recipe = self._recipe
        rng = random.Random(self._seed(role, "order"))
        for number in count():
            episodes = draw_episodes(
                encoder,
                self._seed(role, number),
                size=recipe.lexicon,
                rows=recipe.rows,
                top_n=recipe.curriculum.largest,
                avoid=self._interface.avoid,
            )
            for _ in range(recipe.passes):
                yield from rng.sample(episodes, len(episodes))


class _Meter:
    """Reports each step and remembers the accuracies of the last ``window``."""

    window = 50

    def __init__(self, name: str, steps: int, report: Report) -> None:
        self._name, self._steps, self._report = name, steps, report
        self._accuracies: list[float] = []

    def __call__(self, step: int, loss: float, accuracy: float, note: str = "") -> None:
        self._accuracies.append(accuracy)
        text = f"loss {loss:.3f} accuracy {self.mean():.3f} {note}"
        self._report(self._name, step + 1, self._steps, text.rstrip())

    def mean(self) -> float:
        """Mean accuracy of the last steps."""
        last = self._accuracies[-self.window :]
        return round(sum(last) / len(last), 4)
