"""The phases of a round of joint training: how long each takes, what limits it, and where the
figure comes from.

The phases follow one another, because training plays its rounds in lockstep. What happens once in a
row, or once in several rounds, counts with its share.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from cosearch.params import blocks
from cosearch.params.plan import RoundCosts
from cosearch.plan.cost import GIGA, HOUR, load_seconds, search_rate
from cosearch.plan.layout import GIB
from cosearch.plan.load import Load, StageLoad
from cosearch.plan.outlook import Outlook

ROW = "cosearch"
"""The row whose round is shown."""
SPEEDS = "peak and bandwidth: data sheet; shares of them that are reached: assumption"


@dataclass(frozen=True, slots=True)
class Phase:
    """The ``seconds`` that a phase takes of a round, the ``work`` in words, and the ``limit``."""

    name: str
    seconds: float
    work: str
    limit: str
    source: str


def phases(outlook: Outlook) -> list[Phase]:
    """The phases of a round of row ``cosearch``, or none where its engines share no GPUs."""
    if outlook.engines.layout() is None:
        return []
    return list(_Round.of(outlook).phases())


def phase_lines(outlook: Outlook) -> Iterator[str]:
    """A sentence on the hours of all rounds, if the profile's engines share GPUs."""
    if not (parts := phases(outlook)):
        return
    rounds, most = _rounds(outlook), outlook.settings.file.plan.round.most_hours
    hours = rounds * sum(one.seconds for one in parts) / HOUR
    machine = outlook.machine()
    said = f"row {ROW}: {hours:.1f} h for {rounds} rounds on {machine.count} x {machine.name}"
    if hours <= most:
        yield f"{said}, of at most {most:.0f}"
        return
    longest = sorted(parts, key=lambda one: -one.seconds)[:3]
    named = ", ".join(f"{x.name} {rounds * x.seconds / HOUR:.1f} h ({x.limit})" for x in longest)
    yield f"{said}, more than {most:.0f}: longest are {named}"


def _rounds(outlook: Outlook) -> int:
    return outlook.settings.section(blocks.Train, outlook.settings.variant(ROW).set).rounds


@dataclass(frozen=True)
class _Round:
    """A round of the row. ``share``: how much of what the row reads, writes and searches is played
    for training; the rest is played for development questions."""

    outlook: Outlook
    stage: StageLoad
    train: blocks.Train
    share: float

    @classmethod
    def of(cls, outlook: Outlook) -> "_Round":
        settings = outlook.settings
        changes = settings.variant(ROW).set
        train = settings.section(blocks.Train, changes)
        rolled = train.rounds * train.questions * settings.method(changes).rollout.group_size
        stage = outlook.work.training(ROW, "core", 1)
        habits = outlook.work.habits(ROW, settings.variant(ROW).ranker, changes)
        return cls(outlook, stage, train, rolled * habits.searches / stage.queries)

    @property
    def costs(self) -> RoundCosts:
        return self.outlook.settings.file.plan.round

    def phases(self) -> Iterator[Phase]:
        for load in self.stage.loads:
            yield self.rollout(load)
        yield self.search()
        for load in self.stage.loads:
            yield self.update(load)
        yield self.hand_over()
        yield self.checkpoint()
        yield self.development()
        yield self.start()
        yield self.hashing()
        yield self.serialisation()

    def seconds(self, load: Load) -> dict[str, float]:
        """Seconds of a round, development questions among them, by kind of work."""
        found = self.outlook
        plan, machine = found.settings.file.plan, found.machine()
        kinds = load_seconds(load, plan, machine, found.engines)
        return {kind: value / self.train.rounds for kind, value in kinds.items()}

    def rollout(self, load: Load) -> Phase:
        part = self.share / self.train.rounds
        spent = {kind: self.share * value for kind, value in self.seconds(load).items()}
        limit = "arithmetic of reading" if spent["read"] > spent["sample"] else "memory bandwidth"
        return Phase(
            f"rollout {load.role}",
            spent["read"] + spent["sample"],
            f"{load.read * part:.2g} tokens read, {load.sampled * part:.2g} written",
            limit,
            SPEEDS,
        )

    def search(self) -> Phase:
        engines = self.outlook.engines
        place = f"{engines.search_threads} threads (index.threads)"
        return Phase(
            "search",
            self.share * self.search_seconds(),
            f"{self.share * self.stage.queries / self.train.rounds:,.0f} searches",
            place if engines.gpus is None else "arithmetic of the GPUs",
            "TFLOP/s of a thread: measured (docs/index.md)" if engines.gpus is None else SPEEDS,
        )

    def search_seconds(self) -> float:
        found = self.outlook
        rate = search_rate(found.settings.file.plan, found.machine(), found.engines)
        return self.stage.queries * found.search_flops / rate / self.train.rounds

    def update(self, load: Load) -> Phase:
        tokens = load.trained / self.train.rounds
        return Phase(
            f"update {load.role}",
            self.seconds(load)["update"],
            f"{tokens:.2g} tokens measured and learnt from",
            "arithmetic",
            SPEEDS,
        )

    def hand_over(self) -> Phase:
        """Each weight goes from the GPU that holds it to all others, and every replica hashes what
        it then holds; a trainer's states go to host memory and come back."""
        costs, count = self.costs, self.outlook.machine().count
        weights, states = self._gigabytes("weight"), self._gigabytes("optimizer")
        moved = {
            "digests of every replica": weights / costs.hash,
            "links between GPUs": weights / costs.link,
            "links to host memory": 2 * states / count / costs.host_link,
            "samplers that wake": len(self.stage.loads) * costs.wake,
        }
        return Phase(
            "hand-over",
            sum(moved.values()),
            f"{weights:.0f} GB of weights, {2 * states:.0f} GB of states",
            max(moved, key=lambda name: moved[name]),
            "NVLink: data sheet; SHA-256: measured; host links and waking: assumption",
        )

    def checkpoint(self) -> Phase:
        size, every = self._gigabytes("weight") + self._gigabytes("optimizer"), self.every
        slower = "one core that hashes" if self.costs.hash < self.costs.disk else "disk"
        return Phase(
            "checkpoint",
            size * (1 / self.costs.disk + 1 / self.costs.hash) / every,
            f"{size:.0f} GB every {every} rounds (train.checkpoint_rounds), written, then hashed",
            slower,
            "disk: assumption; SHA-256: measured",
        )

    @property
    def every(self) -> int:
        return min(self.train.checkpoint_rounds, self.train.rounds)

    def development(self) -> Phase:
        played = sum(
            value
            for load in self.stage.loads
            for kind, value in self.seconds(load).items()
            if kind != "update"
        )
        return Phase(
            "development evaluation",
            (1 - self.share) * (played + self.search_seconds()),
            f"its share of a look every {self.train.dev_every} rounds (train.dev_every)",
            "as rollouts and search",
            SPEEDS,
        )

    def start(self) -> Phase:
        read = self.outlook.index_gib * GIB / GIGA + 2 * self._gigabytes("weight")
        return Phase(
            "start-up",
            (self.costs.start + read / self.costs.disk) / self.train.rounds,
            f"{read:.0f} GB of index and models, read once a row",
            "making engines" if self.costs.start > read / self.costs.disk else "disk",
            "assumption",
        )

    def hashing(self) -> Phase:
        """Inputs that have no record yet, and what the row leaves. A later start reads records."""
        disk = self.outlook.disk()
        written = self._tokens() * self.train.rounds * self.outlook.work.calibration.rollout_bytes
        hashed = disk["corpus"] + disk["index"] + 2 * self._gigabytes("weight") + written / GIGA
        return Phase(
            "hashing",
            hashed / self.costs.hash / self.train.rounds,
            f"{hashed:.0f} GB of index, corpus, models and rollouts, once a row",
            "one core",
            "SHA-256: measured",
        )

    def serialisation(self) -> Phase:
        tokens = self._tokens()
        return Phase(
            "serialisation",
            tokens / self.costs.serialise,
            f"{tokens:.2g} tokens as samples, messages, tensors and Parquet",
            "one Python process",
            "measured on one core",
        )

    def _tokens(self) -> float:
        tokens = sum(load.read + load.sampled for load in self.stage.loads)
        return self.share * tokens / self.train.rounds

    def _gigabytes(self, kind: str) -> float:
        """GB of all learners' weights, or of their optimisers' states."""
        memory = self.outlook.settings.file.plan.memory
        width = memory.weight_bytes if kind == "weight" else memory.optimizer_bytes
        learners = [load for load in self.stage.loads if load.trained]
        shapes = [self.outlook.work.architecture(load.architecture) for load in learners]
        return width * sum(shape.parameters for shape in shapes) / GIGA
