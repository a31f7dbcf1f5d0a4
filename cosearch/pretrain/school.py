"""Trains all shipped models. They share one vocabulary, and each has its own stream of tasks.

The name of a role seeds its weights and its stream, so a new model changes no random draw of an
older one. If a model starts from another one, that one is trained first, even if only the first is
asked for.
"""

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import torch

from cosearch.core.seeds import derive
from cosearch.data.world import draw_encyclopaedia
from cosearch.data.world_lexicon import draw_names
from cosearch.pretrain.batches import RankerBatches, alternate, pooled_batches
from cosearch.pretrain.documents import Falsehoods, simulator_row
from cosearch.pretrain.encoder import EncoderModel, new_encoder, train_encoder
from cosearch.pretrain.fiction import FictionEpisode, draw_episodes
from cosearch.pretrain.fit import FitRecipe, ModelShape, fit, new_model, new_scorer, weighted_loss
from cosearch.pretrain.pairs import listwise_loss, pair_batches
from cosearch.pretrain.prompts import Prompts
from cosearch.pretrain.recipe import Interface, Recipe
from cosearch.pretrain.traces import TraceRow, agent_row
from cosearch.pretrain.words import END, PAD, WordCodec, build_vocabulary

Report = Callable[[str, int, int, str], None]
"""Receives the name of a training, the steps done, the number of steps, and a note."""


@dataclass(frozen=True, slots=True)
class TrainedRanker:
    """A ranker, and a copy of it from the step at which the curriculum reached full lists."""

    model: Any
    beginner: Any


class School:
    """Trains each model at its first use, and keeps it."""

    def __init__(self, recipe: Recipe, interface: Interface, report: Report) -> None:
        self._recipe, self._interface, self._report = recipe, interface, report
        self.codec = WordCodec(build_vocabulary(recipe.lexicon))
        self.prompts = Prompts(
            self.codec, interface.templates, interface.agent_document, interface.ranker_document
        )

    @cached_property
    def encoder(self) -> EncoderModel:
        """The bi-encoder."""
        recipe = self._recipe.encoder
        torch.manual_seed(self._seed("encoder"))
        (pad,) = self.codec.tokens(PAD)
        model = new_encoder(recipe, len(self.codec.vocabulary), pad)
        encoder = self.text_encoder(model)
        worlds = [
            draw_encyclopaedia(
                self._recipe.lexicon, self._seed("encoder", number), avoid=self._interface.avoid
            )
            for number in range(recipe.worlds)
        ]
        train_encoder(encoder, worlds, recipe, self._seed("encoder", "batches"))
        return encoder

    @cached_property
    def ranker(self) -> TrainedRanker:
        """The ranker."""
        return self._train_ranker("ranker", self._recipe.shape, self._recipe.ranker)

    @cached_property
    def ranker_small(self) -> TrainedRanker:
        """The small ranker, which stops early."""
        return self._train_ranker("ranker_small", self._recipe.small, self._recipe.ranker_small)

    @cached_property
    def agent(self) -> Any:
        """The agent. It starts from the ranker's beginner, which can copy names."""
        return self._train_agent("agent", self.ranker.beginner, self._recipe.agent)

    @cached_property
    def agent_small(self) -> Any:
        """The small agent. It starts from the small ranker's beginner."""
        return self._train_agent(
            "agent_small", self.ranker_small.beginner, self._recipe.agent_small
        )

    @cached_property
    def shared(self) -> Any:
        """One model for both roles. It starts from the ranker's beginner."""
        recipe = self._recipe
        ranks = RankerBatches(
            self._episodes("shared_ranker"),
            self.prompts,
            recipe.script,
            replace(recipe.curriculum, sizes=recipe.curriculum.sizes[-1:]),
            recipe.shared.batch,
            random.Random(self._seed("shared_ranker", "rows")),
        )
        turns = self._agent_batches("shared_agent", recipe.shared.batch)
        # The beginner can rank already, so two of three batches train the agent's part.
        batches = alternate(turns, turns, iter(ranks))
        return self._fit("shared", self.ranker.beginner, batches, recipe.shared)

    @cached_property
    def simulator(self) -> Any:
        """The document simulator. It starts from the small ranker's beginner."""
        recipe = self._recipe
        falsehoods = Falsehoods(draw_names(recipe.lexicon), self._interface.avoid)
        episodes = self._episodes("simulator")
        rng = random.Random(self._seed("simulator", "rows"))

        def draw() -> TraceRow:
            parts = (self.prompts, recipe.script, recipe.simulation, falsehoods)
            return simulator_row(next(episodes), *parts, rng)

        batches = pooled_batches(draw, recipe.simulator.batch, recipe.pool, rng)
        return self._fit("simulator", self.ranker_small.beginner, batches, recipe.simulator)

    @cached_property
    def cross_encoder(self) -> Any:
        """The cross-encoder, trained from scratch."""
        recipe = self._recipe
        torch.manual_seed(self._seed("cross_encoder"))
        pad, eos = self.codec.tokens(PAD, END)
        model = new_scorer(recipe.small, len(self.codec.vocabulary), pad=pad, eos=eos)
        batches = pair_batches(
            self._episodes("cross_encoder"),
            self.prompts,
            recipe.script,
            recipe.cross_encoder.batch,
            random.Random(self._seed("cross_encoder", "rows")),
            top_n=recipe.curriculum.sizes[-1],
        )
        meter = _Meter("cross_encoder", recipe.cross_encoder.steps, self._report)
        fit(model, batches, recipe.cross_encoder, meter, listwise_loss)
        return model

    @cached_property
    def unseen(self) -> list[FictionEpisode]:
        """Tasks of an encyclopaedia that no training uses."""
        drawn = self._draw("measured", 0)
        rng = random.Random(self._seed("measured", "order"))
        return rng.sample(drawn, min(self._recipe.measured, len(drawn)))

    def text_encoder(self, model: Any) -> EncoderModel:
        """The bi-encoder ``model`` with the vocabulary and the prefixes of the profile."""
        prefixes = (self._interface.query_prefix, self._interface.passage_prefix)
        return EncoderModel(model, self.codec, *prefixes)

    def _train_ranker(self, role: str, shape: ModelShape, steps: FitRecipe) -> TrainedRanker:
        recipe = self._recipe
        torch.manual_seed(self._seed(role))
        pad, eos = self.codec.tokens(PAD, END)
        model = new_model(shape, len(self.codec.vocabulary), pad=pad, eos=eos)
        batches = RankerBatches(
            self._episodes(role),
            self.prompts,
            recipe.script,
            recipe.curriculum,
            steps.batch,
            random.Random(self._seed(role, "rows")),
        )
        beginner: list[Any] = []
        meter = _Meter(role, steps.steps, self._report)

        def on_step(step: int, loss: float, accuracy: float) -> None:
            batches.observe(accuracy)
            if batches.finished and not beginner:
                beginner.append(copy.deepcopy(model))
            meter(step, loss, accuracy, f"{batches.size} candidates")

        fit(model, iter(batches), steps, on_step, weighted_loss)
        if not beginner:
            raise ValueError(
                f"base_models.{role}.steps={steps.steps}: the ranker got no further than"
                f" {batches.size} candidates"
            )
        return TrainedRanker(model, beginner[0])

    def _train_agent(self, role: str, beginner: Any, steps: FitRecipe) -> Any:
        batches = self._agent_batches(role, steps.batch)
        return self._fit(role, beginner, batches, steps)

    def _agent_batches(self, role: str, batch: int) -> Iterator[list[TraceRow]]:
        episodes = self._episodes(role)
        rng = random.Random(self._seed(role, "rows"))

        def draw() -> TraceRow:
            return agent_row(next(episodes), self.prompts, self._recipe.script, rng)

        return pooled_batches(draw, batch, self._recipe.pool, rng)

    def _fit(
        self, role: str, beginner: Any, batches: Iterator[list[TraceRow]], steps: FitRecipe
    ) -> Any:
        model = copy.deepcopy(beginner)
        fit(model, batches, steps, _Meter(role, steps.steps, self._report), weighted_loss)
        return model

    def _seed(self, *parts: int | str) -> int:
        return derive("base_models", self._recipe.seed, *parts)

    def _episodes(self, role: str) -> Iterator[FictionEpisode]:
        """An endless stream of fictional tasks, one encyclopaedia after another."""
        rng = random.Random(self._seed(role, "order"))
        for number in count():
            episodes = self._draw(role, number)
            for _ in range(self._recipe.passes):
                yield from rng.sample(episodes, len(episodes))

    def _draw(self, role: str, number: int) -> list[FictionEpisode]:
        recipe = self._recipe
        return draw_episodes(
            self.encoder,
            self._seed(role, number),
            size=recipe.lexicon,
            rows=recipe.rows,
            top_n=recipe.curriculum.largest,
            avoid=self._interface.avoid,
        )


class _Meter:
    """Reports each step with the mean accuracy of the last ``window`` steps."""

    window = 50

    def __init__(self, name: str, steps: int, report: Report) -> None:
        self._name, self._steps, self._report = name, steps, report
        self._accuracies: list[float] = []

    def __call__(self, step: int, loss: float, accuracy: float, note: str = "") -> None:
        self._accuracies.append(accuracy)
        last = self._accuracies[-self.window :]
        text = f"loss {loss:.3f} accuracy {sum(last) / len(last):.3f} {note}"
        self._report(self._name, step + 1, self._steps, text.rstrip())
