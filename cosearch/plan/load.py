"""Predicts how many tokens every stage of a profile processes, from the parameters alone.

A load counts the tokens that one model reads, samples and learns from in one stage. The behaviour
of policies (searches, tokens per turn) comes from a calibration. Everything else follows from the
profile and its rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from cosearch.params import blocks
from cosearch.params.derived import BASE, FIXED_RANKER
from cosearch.params.method import Method
from cosearch.params.plan import Architecture, Calibration, Habits
from cosearch.params.rows import System, Variant
from cosearch.params.settings import Settings
from cosearch.plan.measure import Tokens, predict

ONE_TURN: Mapping[str, int] = {"direct": 0, "cot": 0, "rag": 1}
"""Methods that answer in one turn, with their number of searches."""


@dataclass(frozen=True, slots=True)
class Load:
    """Tokens of one model in sequences of ``context`` tokens.

    ``read`` counts prefill, ``sampled`` decode, ``trained`` forward and backward passes, and
    ``measured`` the computation of old log-probabilities.
    """

    role: str
    architecture: str
    context: float
    read: float = 0.0
    sampled: float = 0.0
    trained: float = 0.0
    measured: float = 0.0
    causal: bool = True


@dataclass(frozen=True, slots=True)
class StageLoad:
    """The loads of a stage.

    The stage stands for ``rows`` rows of the graph, all of the same ``part``. ``loads`` and
    ``queries`` (searches of the index) are those of one row.
    """

    stage: str
    name: str
    part: str
    rows: int
    loads: tuple[Load, ...]
    queries: float = 0.0


@dataclass(frozen=True)
class Workload:
    """Derives the loads of all stages of a profile."""

    settings: Settings
    calibration: Calibration

    @classmethod
    def of(cls, settings: Settings) -> "Workload":
        """Look up the calibration of the profile. Raises ValueError if there is none."""
        found = settings.file.plan.calibration
        if settings.profile not in found:
            raise ValueError(
                f"plan.calibration: no {settings.profile!r}; there are {', '.join(sorted(found))}."
                " Measure one with --calibrate after a training"
            )
        return cls(settings, found[settings.profile])

    def stages(self) -> list[StageLoad]:
        """All stages that run a model, in the order of the graph. Trainings of 0 rounds are left
        out."""
        ranked = self.settings.section(blocks.FixedRanker).rounds
        trained, own = self.settings.section(blocks.Train).rounds, self.collected
        return [
            self.encoding("encode", "corpus", self.calibration.passages),
            *([self.encoding("fixed_ranker_data", "collection", own)] if own else ()),
            *([self.fixed_ranker()] if ranked else ()),
            *(self.trainings() if trained else ()),
            *self.evaluations(),
        ]

    @property
    def collected(self) -> int:
        """Number of passages in the separate collections of the Fixed Ranker's queries.

        Counts those whose rows the hub lists. The plan assumes that they are as long as those of
        the corpus, which overestimates their tokens.
        """
        hub = self.settings.file.hub.get(self.settings.profile)
        sources = self.settings.section(blocks.Data).lists.values()
        names = {source.collection for source in sources}
        return sum(row.rows or 0 for name, row in hub.files.items() if name in names) if hub else 0

    def encoding(self, stage: str, name: str, passages: int) -> StageLoad:
        """Encoding a corpus: one pass over every passage."""
        tokens = self.calibration.passage_tokens
        load = Load("encoder", self.shape("encoder"), tokens, passages * tokens, causal=False)
        return StageLoad(stage, name, "core", 1, (load,))

    def fixed_ranker(self) -> StageLoad:
        """Single-turn training of the Fixed Ranker, once per seed.

        All samples of a list share one prompt, so the prompt is read once.
        """
        block, habit = self.settings.section(blocks.FixedRanker), self.calibration.habits
        calls = habit["generative"]
        lists, group = block.rounds * block.questions, self.method({}).rollout.group_size
        prompt, turn = calls.call_prompt_tokens, calls.call_turn_tokens
        trained = calls.live_calls * lists * group * (prompt + turn)
        load = Load(
            "ranker",
            self.shape("ranker"),
            prompt + turn,
            read=lists * prompt,
            sampled=lists * group * turn,
            trained=trained,
            measured=trained,
        )
        seeds = len(self.settings.graph.seeds)
        return StageLoad("fixed_ranker", "Fixed Ranker", "core", seeds, (load,), block.lists)

    def trainings(self) -> Iterator[StageLoad]:
        """One load per variant. Its rows are its seeds."""
        rows = self.settings.graph.trainings.values()
        for name in dict.fromkeys(row.variant for row in rows):
            seeds = [row for row in rows if row.variant == name]
            yield self.training(name, seeds[0].part, len(seeds))

    def training(self, name: str, part: str, seeds: int) -> StageLoad:
        """Joint training of one variant: rollouts, development questions and updates."""
        variant = self.settings.variant(name)
        block = self.settings.section(blocks.Train, variant.set)
        group = self.method(variant.set).rollout.group_size
        dev = self.questions("dev") * (1 + ceil(block.rounds / block.dev_every))
        rolled = block.rounds * block.questions * group
        habits = self.habits(name, variant.ranker, variant.set)
        models = self.models(variant.models, variant.set)
        loads = self._policies(variant, models, predict(habits, rolled + dev), habits)
        training = rolled / (rolled + dev)
        shares = {"agent": habits.live * training, "ranker": habits.live_calls * training}
        loads = tuple(_learning(load, shares, variant.train) for load in loads)
        return StageLoad("train", name, part, seeds, loads, (rolled + dev) * habits.searches)

    def evaluations(self) -> Iterator[StageLoad]:
        """One load per system. Its rows are its seeds."""
        rows = self.settings.graph.evaluations.values()
        only = self.settings.section(blocks.Evaluate).systems
        for name in dict.fromkeys(row.system for row in rows):
            seeds = [row for row in rows if row.system == name]
            if only is None or name in only:
                yield self.evaluation(name, seeds[0].part, len(seeds))

    def evaluation(self, name: str, part: str, seeds: int) -> StageLoad:
        """Greedy answers to the test questions."""
        system, block = self.settings.system(name), self.settings.section(blocks.Evaluate)
        asked = self.questions(block.split, block.questions_per_set)
        habits = self.habits(system.variant, system.ranker, self.settings.overrides_of(name))
        if system.method in ONE_TURN:
            habits = _one_turn(habits, ONE_TURN[system.method])
        base = system.variant == BASE
        owner = system.models if base else self.settings.variant(system.variant).models
        models = self.models(owner, system.set)
        loads = self._policies(system, models, predict(habits, asked), habits)
        return StageLoad("evaluate", name, part, seeds, loads, asked * habits.searches)

    def questions(self, split: str, most: int | None = None) -> int:
        """Number of questions of a split, at most ``most`` of each set.

        Raises ValueError if neither the set nor ``most`` gives a number.
        """
        total = 0
        for name, row in self.settings.section(blocks.Data).sets.items():
            numbers = [number for number in (getattr(row, split), most) if number is not None]
            if not numbers:
                raise ValueError(f"data.sets.{name}.{split}: a plan needs the number of rows")
            total += min(numbers)
        return total

    def method(self, overrides: Mapping[str, Any]) -> Method:
        """The method of the profile with the overrides of a row."""
        return self.settings.method(overrides)

    def habits(self, name: str, ranker: str, overrides: Mapping[str, Any]) -> Habits:
        """Habits of a row: its own, else those of its kind of ranker.

        The tokens of an observation grow in proportion to K.
        """
        known = self.calibration.habits
        found = known.get(name) or known[ranker]
        usual, here = (self.method(o).rollout.top_k for o in ({}, overrides))
        shown = found.observation_tokens * here / usual
        return found.model_copy(update={"observation_tokens": shown})

    def models(self, roles: Mapping[Any, str], overrides: Mapping[str, Any]) -> dict[str, str]:
        """Name of the architecture by role."""
        folders = self.settings.section(blocks.Models, overrides).model_dump()
        names = {role: "ranker" if n == FIXED_RANKER else n for role, n in roles.items()}
        return {role: self._shape_of(folders[name], name) for role, name in names.items()}

    def shape(self, name: str) -> str:
        """Name of the architecture of a model, by the name of the model in the profile."""
        return self._shape_of(getattr(self.settings.section(blocks.Models), name), name)

    def architecture(self, name: str) -> Architecture:
        """Look up an architecture by name."""
        return self.settings.file.plan.architectures[name]

    def _shape_of(self, folder: str | None, name: str) -> str:
        known = self.settings.file.plan.models
        if folder not in known:
            raise ValueError(f"plan.models: no architecture for {name} ({folder})")
        return known[folder]

    def _policies(
        self, row: Variant | System, models: Mapping[str, str], tokens: Tokens, habits: Habits
    ) -> tuple[Load, ...]:
        """Loads of the agent and of the models that process its searches."""
        context = habits.prompt_tokens + habits.turns * habits.turn_tokens
        context += habits.searches * habits.observation_tokens
        agent = Load("agent", models["agent"], context, tokens.agent_read, tokens.agent_sampled)
        calls = tokens.agent_sampled / (habits.turns * habits.turn_tokens) * habits.searches
        return (agent, *self._assistants(row, models, tokens, calls))

    def _assistants(
        self, row: Variant | System, models: Mapping[str, str], tokens: Tokens, calls: float
    ) -> Iterator[Load]:
        known = self.calibration
        if row.method == "search_o1":
            notes = known.notes
            yield _writer("notes", models["agent"], notes.prompt_tokens, notes.turn_tokens, calls)
        if row.ranker == "generative" and calls:
            context = (tokens.ranker_read + tokens.ranker_sampled) / calls
            yield Load(
                "ranker", models["ranker"], context, tokens.ranker_read, tokens.ranker_sampled
            )
        if row.ranker == "cross_encoder":
            pairs = calls * self.method(row.set).rollout.top_n
            read = pairs * known.pair_tokens
            yield Load("ranker", models["ranker"], known.pair_tokens, read, causal=False)
        if "simulator" in models:
            said = known.simulated
            name = models["simulator"]
            yield _writer("simulator", name, said.prompt_tokens, said.turn_tokens, calls)


def _writer(role: str, architecture: str, prompt: float, turn: float, calls: float) -> Load:
    return Load(role, architecture, prompt + turn, calls * prompt, calls * turn)


def _learning(load: Load, shares: Mapping[str, float], learners: tuple[str, ...]) -> Load:
    """The load together with its updates if its role learns, else the same load."""
    if load.role not in learners:
        return load
    amount = shares[load.role] * (load.read + load.sampled)
    return replace(load, trained=amount, measured=amount)


def _one_turn(habits: Habits, searches: int) -> Habits:
    return habits.model_copy(update={"turns": 1.0, "searches": float(searches)})
