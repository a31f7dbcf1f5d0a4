"""Measures the shipped models. Each is loaded from its folder, in the stored number type."""

import random
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from cosearch.core.seeds import derive
from cosearch.pretrain.fiction import FictionEpisode, FictionSearch
from cosearch.pretrain.measure import (
    Exercise,
    Measures,
    agent_exercises,
    listed_searches,
    measure_lists,
    measure_scorer,
    measure_writer,
    ranker_exercises,
    simulator_exercises,
)
from cosearch.pretrain.recipe import Recipe
from cosearch.pretrain.school import School

_TOP_K = 3
_MAX_TOKENS = 96
"""Longest text in the exams. The texts in training are shorter."""


class Exam:
    """Exercises on tasks of one encyclopaedia that no training uses."""

    def __init__(self, recipe: Recipe, school: School) -> None:
        self._recipe, self._school = recipe, school
        self._top_n = recipe.curriculum.sizes[-1]

    def lists(self, _folder: Path) -> Measures:
        """Measure the bi-encoder by its lists. The exams of the rankers use the same lists."""
        return measure_lists(self._school.unseen, self._listed)

    def agent(self, folder: Path) -> Measures:
        """Measure queries and answers."""
        return self._write(folder, self._turns)

    def ranker(self, folder: Path) -> Measures:
        """Measure rankings."""
        return self._write(folder, self._rankings)

    def both(self, folder: Path) -> Measures:
        """Measure queries, answers and rankings."""
        return self._write(folder, [*self._turns, *self._rankings])

    def simulator(self, folder: Path) -> Measures:
        """Measure useful and noisy documents."""
        count = self._recipe.simulation.documents
        requests = simulator_exercises(self._listed, self._school.prompts, documents=count)
        return self._write(folder, requests)

    def scorer(self, folder: Path) -> Measures:
        """Measure lists in the order of their scores."""
        from transformers import AutoModelForSequenceClassification

        loader: Any = AutoModelForSequenceClassification
        model = loader.from_pretrained(folder, dtype=torch.float32)
        return measure_scorer(model, self._listed, self._school.prompts, top_n=self._top_n)

    @cached_property
    def _listed(self) -> list[tuple[FictionEpisode, FictionSearch]]:
        rng = random.Random(self._seed("searches"))
        return listed_searches(self._school.unseen, self._recipe.script, rng, top_n=self._top_n)

    @cached_property
    def _turns(self) -> list[Exercise]:
        rng = random.Random(self._seed("trajectories"))
        school = self._school
        return agent_exercises(school.unseen, school.prompts, self._recipe.script, rng)

    @cached_property
    def _rankings(self) -> list[Exercise]:
        prompts = self._school.prompts
        return ranker_exercises(self._listed, prompts, top_n=self._top_n, top_k=_TOP_K)

    def _write(self, folder: Path, exercises: Sequence[Exercise]) -> Measures:
        from transformers import AutoModelForCausalLM

        loader: Any = AutoModelForCausalLM
        model = loader.from_pretrained(folder, dtype=torch.float32)
        codec, seed = self._school.codec, self._seed("samples")
        return measure_writer(model, codec, exercises, max_tokens=_MAX_TOKENS, seed=seed)

    def _seed(self, part: str) -> int:
        return derive("base_models", self._recipe.seed, "exam", part)
