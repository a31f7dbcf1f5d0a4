"""The plan of a profile, from its parameters alone. It needs neither a GPU nor torch.

The plan predicts tokens, FLOPs, hours and cost of each stage, the memory of each phase, for each
number of GPUs if training fits, and the sizes of indexes and files.
"""

from dataclasses import dataclass
from typing import Any

from cosearch.files.artifacts import Paths
from cosearch.params import blocks
from cosearch.params.plan import Habits
from cosearch.params.settings import Settings
from cosearch.plan.cost import Cost, Machine, search_rate, stage_cost
from cosearch.plan.host import host_parts
from cosearch.plan.layout import GIB, Engines, Layout
from cosearch.plan.load import Load, StageLoad, Workload
from cosearch.plan.measure import Deviation, Tally, deviations, predict, tally
from cosearch.plan.memory import (
    Joint,
    MemoryNeed,
    Role,
    encode_need,
    index_bytes,
    largest_share,
    needs,
)

GIGABYTE = 1e9


@dataclass(frozen=True, slots=True)
class Priced:
    """A stage and the cost of one of its rows."""

    stage: StageLoad
    cost: Cost


@dataclass(frozen=True, slots=True)
class FitVerdict:
    """Whether joint training fits on a machine.

    ``host_memory`` is in GiB. ``reasons`` say why it does not fit. Each of ``others`` is a set of
    parameters with which it would fit. ``phases`` is empty if the engines share no GPUs.
    """

    machine: Machine
    phases: tuple[MemoryNeed, ...]
    host_memory: float = 0.0
    reasons: tuple[str, ...] = ()
    others: tuple[dict[str, Any], ...] = ()

    @property
    def fits(self) -> bool:
        """True if there is no reason against it."""
        return not self.reasons


@dataclass(frozen=True)
class Outlook:
    """The plan of a profile on a kind of GPU."""

    settings: Settings
    work: Workload
    gpu: str
    count: int

    @classmethod
    def of(cls, settings: Settings, gpu: str | None = None, count: int | None = None) -> "Outlook":
        """Make a plan for ``count`` GPUs of a kind. None takes the value of params.yaml.

        Raises ValueError for an unknown GPU, a count below one or a profile without calibration.
        """
        plan = settings.file.plan
        name = gpu or plan.gpu
        if name not in plan.gpus:
            raise ValueError(f"plan.gpus: no {name!r}; there are {', '.join(sorted(plan.gpus))}")
        number = plan.count if count is None else count
        if number < 1:
            raise ValueError(f"count: {number} GPUs")
        return cls(settings, Workload.of(settings), name, number)

    def machine(self, count: int | None = None) -> Machine:
        """``count`` GPUs of the chosen kind. None takes the count of the plan."""
        plan = self.settings.file.plan
        return Machine(self.gpu, plan.gpus[self.gpu], self.count if count is None else count)

    def priced(self) -> list[Priced]:
        """Every stage with its cost."""
        plan, machine, engines = self.settings.file.plan, self.machine(), self.engines
        stages = self.work.stages()
        return [Priced(x, stage_cost(x, plan, machine, engines, self.search_flops)) for x in stages]

    @property
    def search_flops(self) -> float:
        """FLOPs of one exact search."""
        return 2.0 * self.dimension * self.work.calibration.passages

    def search_batch(self) -> tuple[int, float]:
        """The most queries that are searched at once, and the seconds that they take. In a step of
        a rollout every trajectory may search, in one of an evaluation every question of a shard."""
        train = self.settings.section(blocks.Train)
        evaluate = self.settings.section(blocks.Evaluate)
        group = self.settings.method({}).rollout.group_size
        queries = max(train.questions * group, evaluate.shard_questions)
        rate = search_rate(self.settings.file.plan, self.machine(), self.engines)
        return queries, queries * self.search_flops / rate

    @property
    def engines(self) -> Engines:
        """The engines of the profile."""
        return Engines.of(self.settings)

    def verdict(self, machine: Machine) -> FitVerdict:
        """Whether joint training of the large agent and its ranker fits on ``machine``."""
        layout = self.engines.layout()
        if layout is None:
            return FitVerdict(machine, ())
        joint = self.joint(machine)
        phases = (*self._encoding(machine), *needs(layout, joint))
        reasons = tuple(self._reasons(layout, joint))
        others = tuple(self._others(layout, joint)) if reasons else ()
        host = sum(host_parts(layout, joint).values())
        return FitVerdict(machine, phases, host, reasons, others)

    def joint(self, machine: Machine) -> Joint:
        """Joint training on ``machine``."""
        return Joint(self.roles(), machine, self.settings.file.plan.memory, self.index_gib)

    def _encoding(self, machine: Machine) -> list[MemoryNeed]:
        encoder = self.settings.section(blocks.Encoder)
        if encoder.device == "cpu":
            return []
        shape, tokens = self.work.architecture(self.work.shape("encoder")), encoder.max_length
        memory = self.settings.file.plan.memory
        return [encode_need(shape, encoder.batch_size * tokens, memory, machine)]

    def _reasons(self, layout: Layout, joint: Joint) -> list[str]:
        """Why a layout does not fit: the number of GPUs, their memory, or the host memory."""
        count, host = joint.machine.count, self.settings.file.plan.host
        found = list(layout.lacks(count))
        if layout.own_gpus < count:
            phases = [*self._encoding(joint.machine), *needs(layout, joint)]
            found += [reason for need in phases for reason in need.reasons()]
        used, have = sum(host_parts(layout, joint).values()), host.memory * -(-count // host.gpus)
        if used > have:
            found.append(f"host memory: {used:.0f} GiB needed, {have:.0f} there")
        return found

    def _others(self, layout: Layout, joint: Joint) -> list[dict[str, Any]]:
        """Parameters with which joint training would fit, the most similar ones first."""
        found = []
        for other in layout.nearby(joint.machine.count):
            share = largest_share(other, joint)
            tried = [other, other.with_samplers(memory_share=share)] if share else [other]
            fits = (one for one in tried if not self._reasons(one, joint))
            if (first := next(fits, None)) is not None:
                found.append(layout.changes(first))
        return found

    def roles(self) -> tuple[Role, ...]:
        """The large agent and the ranker that is trained with it."""
        agent, ranker = self.settings.section(blocks.Agent), self.settings.section(blocks.Ranker)
        habits = self.work.calibration.habits["generative"]
        written = habits.turns * habits.turn_tokens
        seen = habits.prompt_tokens + habits.searches * habits.observation_tokens
        return (
            self._role("agent", seen, written, agent.max_prompt_tokens + agent.max_response_tokens),
            self._role(
                "ranker",
                habits.call_prompt_tokens,
                habits.call_turn_tokens,
                ranker.max_prompt_tokens + ranker.max_turn_tokens,
            ),
        )

    def _role(self, name: str, read: float, written: float, longest: int) -> Role:
        train = self.settings.section(blocks.Train)
        batch = train.batch_tokens
        trained = min(train.logit_tokens, int(batch * written / (read + written)))
        shape = self.work.architecture(self.work.shape(name))
        return Role(name, shape, batch, trained, longest, read + written, self._frozen(name))

    def _frozen(self, name: str) -> bool:
        """Whether some row trains others and leaves this role as it is."""
        rows = self.settings.graph.trainings.values()
        variants = (self.settings.variant(row.variant) for row in rows)
        return any(name in one.models and name not in one.train for one in variants)

    @property
    def dimension(self) -> int:
        """Dimension of a passage vector."""
        return self.work.architecture(self.work.shape("encoder")).hidden

    def indexes(self) -> dict[str, float]:
        """GB of an index by kind."""
        index = self.settings.section(blocks.Index)
        sizes = index_bytes(
            self.work.calibration.passages,
            self.dimension,
            pq_m=index.pq_m,
            hnsw_m=index.hnsw_m,
        )
        return {kind: size / GIGABYTE for kind, size in sizes.items()}

    @property
    def index_gib(self) -> float:
        """GiB of the profile's index."""
        return self.indexes()[self.settings.section(blocks.Index).kind] * GIGABYTE / GIB

    def disk(self) -> dict[str, float]:
        """GB by kind of file. A running training keeps its state twice for a moment."""
        plan, known, indexes = self.settings.file.plan, self.work.calibration, self.indexes()
        shapes = {name: self.work.architecture(plan.models[name]) for name in self._folders()}
        width = plan.memory.weight_bytes
        half = self.settings.section(blocks.Encoder).storage == "float16"
        trained = [
            (stage.rows, load)
            for stage in self.work.stages()
            if stage.stage != "evaluate"
            for load in stage.loads
        ]
        learnt = [(rows, load) for rows, load in trained if load.trained]
        state = sum(role.shape.parameters for role in self.roles())
        state *= width + plan.memory.optimizer_bytes
        searched = {
            "corpus": known.passages * known.passage_bytes,
            "passage vectors": indexes["fp16" if half else "flat"] * GIGABYTE,
            "index": self.index_gib * GIB,
        }
        sizes = {
            "models as fetched": sum(shape.parameters for shape in shapes.values()) * width,
            **searched,
            "collections of lists": sum(searched.values()) * (self.work.collected / known.passages),
            "state of a running training": 2 * state if learnt else 0.0,
            "trained models": sum(rows * self._parameters(load) for rows, load in learnt) * width,
            "rollouts": sum(rows * _sequence_tokens(load) for rows, load in trained)
            * known.rollout_bytes,
        }
        return {name: size / GIGABYTE for name, size in sizes.items()}

    def _folders(self) -> set[str]:
        folders = self.settings.section(blocks.Models).model_dump().values()
        return {folder for folder in folders if folder in self.settings.file.plan.models}

    def _parameters(self, load: Load) -> int:
        return self.work.architecture(load.architecture).parameters


def _sequence_tokens(load: Load) -> float:
    """Number of tokens of a load that rollout files store. They store none of the encoder."""
    return load.read + load.sampled if load.role in ("agent", "ranker") else 0.0


def calibrate(settings: Settings, paths: Paths, seed: int) -> dict[str, Habits]:
    """Habits of every variant that was trained with ``seed``. Raises ValueError if there is
    none."""
    found = {name: counted.habits(name) for name, counted in _tallies(settings, paths, seed)}
    if not found:
        raise ValueError(f"{paths.root}: no rollouts of seed {seed}; run `dvc repro` first")
    return found


def check(settings: Settings, paths: Paths, seed: int) -> dict[str, list[Deviation]]:
    """Predicted and measured tokens by variant, for the variants with calibrated habits.

    Raises ValueError if none of them was trained with ``seed``.
    """
    habits = Workload.of(settings).calibration.habits.values()
    measured = {habit.measured: habit for habit in habits if habit.measured}
    found = {}
    for name, counted in _tallies(settings, paths, seed):
        if name in measured:
            sizes = settings.section(blocks.Train, settings.variant(name).set)
            group = settings.method(settings.variant(name).set).rollout.group_size
            rolled = sizes.rounds * sizes.questions * group
            found[name] = deviations(predict(measured[name], rolled), counted.tokens)
    if not found:
        raise ValueError(f"{paths.root}: seed {seed} trained none of {', '.join(measured)}")
    return found


def _tallies(settings: Settings, paths: Paths, seed: int) -> list[tuple[str, Tally]]:
    found = []
    for row in settings.graph.trainings.values():
        folder = paths.train(row.part, seed, row.variant)
        if row.seed == seed and (folder / "rollouts").is_dir():
            found.append((row.variant, tally(folder)))
    return found
