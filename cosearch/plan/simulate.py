"""The rollout of one round as a simulation of events, from lengths that a run measured.

Two drivers are compared. In lockstep all trajectories write a turn, then all searches are answered,
then all rankings are written: one sampler works at a time, and the other may sleep and lend its
memory. Continuously every trajectory goes on as soon as it can: both samplers work at the same time
and share the GPU. Replicas are alike, so one of them is simulated with its part of the
trajectories.
"""

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, cycle, islice
from pathlib import Path

from cosearch.params import blocks
from cosearch.plan.cost import GIGA, TERA, forward_flops, matrix_weights, search_rate
from cosearch.plan.layout import Layout, cache_bytes, cache_gib, share_parts
from cosearch.plan.lengths import Script, Turn, read_scripts
from cosearch.plan.memory import Joint
from cosearch.plan.outlook import Outlook

STRIDE = 8
"""Tokens that a sampler writes between two looks at what has arrived."""


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a replica works, and how many tokens its cache holds.

    Seconds to read a token, to read the weights for a decoding step, and of a step for each cached
    token and for each sequence.
    """

    read_s: float
    weights_s: float
    cached_s: float
    sequence_s: float
    cache: int
    sequences: int

    def step(self, sequences: int, cached: int) -> float:
        """Seconds in which every running sequence writes one token: those of moving weights and
        cache, or those of the arithmetic where that takes longer."""
        return max(self.weights_s + cached * self.cached_s, sequences * self.sequence_s)


@dataclass(frozen=True, slots=True)
class Drive:
    """The seconds of a round under a driver, and of those the seconds in which each part works.
    ``written``: tokens that were written, by role."""

    driver: str
    seconds: float
    parts: Mapping[str, float]
    written: Mapping[str, int]


@dataclass(slots=True)
class _Job:
    """A request at a sampler: whose it is, tokens to read, in the cache before, and to write."""

    owner: int
    read: int
    context: int
    left: int

    @property
    def length(self) -> int:
        return self.context + self.read + self.left


@dataclass(slots=True)
class _Sampler:
    """A replica with continuous batching: jobs enter in order as far as the cache has room."""

    speed: Speed
    waiting: deque[_Job] = field(default_factory=deque)
    running: list[_Job] = field(default_factory=list)
    taken: int = 0
    written: int = 0

    def begin(self) -> float:
        """Admit jobs and start the next stretch of up to ``STRIDE`` tokens; returns its seconds.
        0.0 without a job."""
        reading = 0
        while self.waiting and self._fits(self.waiting[0]):
            job = self.waiting.popleft()
            reading += job.read
            self.running.append(job)
            self.taken += job.length
        if not self.running:
            return 0.0
        cached = sum(job.context + job.read for job in self.running)
        return reading * self.speed.read_s + self._stride() * self.speed.step(
            len(self.running), cached
        )

    def end(self) -> list[int]:
        """End the stretch; returns the owners of finished jobs."""
        stride = self._stride()
        for job in self.running:
            job.left -= stride
            job.context += stride
        self.written += stride * len(self.running)
        done = [job for job in self.running if job.left == 0]
        self.running = [job for job in self.running if job.left]
        self.taken -= sum(job.length for job in done)
        return [job.owner for job in done]

    def drain(self) -> float:
        """Seconds until no job is left."""
        total = 0.0
        while seconds := self.begin():
            total += seconds
            self.end()
        return total

    def _fits(self, job: _Job) -> bool:
        """A job that is alone enters however long it is: the plan refuses a cache too small."""
        room = self.taken + job.length <= self.speed.cache
        return len(self.running) < self.speed.sequences and (room or not self.running)

    def _stride(self) -> int:
        return min(STRIDE, *(job.left for job in self.running))


def in_lockstep(
    scripts: Sequence[Script], speeds: Mapping[str, Speed], searches: float, name: str
) -> Drive:
    """All trajectories turn by turn. ``searches``: those that are answered in a second."""
    samplers = {role: _Sampler(speed) for role, speed in speeds.items()}
    parts, kept = dict.fromkeys((*speeds, "search"), 0.0), _keeps(scripts, speeds["agent"])
    for number in range(max(map(len, scripts), default=0)):
        wave = [(owner, s[number]) for owner, s in enumerate(scripts) if number < len(s)]
        samplers["agent"].waiting.extend(_agent_job(owner, turn, kept) for owner, turn in wave)
        parts["agent"] += samplers["agent"].drain()
        parts["search"] += sum(turn.searches for _, turn in wave) / searches
        ranked = [_ranker_job(owner, turn) for owner, turn in wave if turn.ranked]
        samplers["ranker"].waiting.extend(ranked)
        parts["ranker"] += samplers["ranker"].drain()
    return Drive(name, sum(parts.values()), parts, _written(samplers))


def continuously(
    scripts: Sequence[Script], speeds: Mapping[str, Speed], searches: float, name: str
) -> Drive:
    """Every trajectory goes on as soon as it can. ``searches``: those answered in a second."""
    return _Continuous(scripts, speeds, searches).drive(name)


class _Continuous:
    """Both samplers and the search as servers of one clock."""

    def __init__(
        self, scripts: Sequence[Script], speeds: Mapping[str, Speed], searches: float
    ) -> None:
        self._turns = [iter(script) for script in scripts]
        self._now: list[Turn | None] = [None] * len(scripts)
        self._samplers = {role: _Sampler(speed) for role, speed in speeds.items()}
        self._busy: set[str] = set()
        self._parts = dict.fromkeys((*speeds, "search"), 0.0)
        self._kept = _keeps(scripts, speeds["agent"])
        self._searches, self._free = searches, 0.0
        self._events: list[tuple[float, int, str, int]] = []
        self._order = count()

    def drive(self, name: str) -> Drive:
        clock = 0.0
        for owner in range(len(self._turns)):
            self._next_turn(owner)
        self._start(clock)
        while self._events:
            clock, _, kind, owner = heapq.heappop(self._events)
            if kind == "search":
                self._searched(owner)
            else:
                self._busy.discard(kind)
                for done in self._samplers[kind].end():
                    self._finished(kind, done, clock)
            self._start(clock)
        return Drive(name, clock, self._parts, _written(self._samplers))

    def _start(self, clock: float) -> None:
        """Start a stretch of each idle sampler that has a job; two that work share the GPU."""
        for role, sampler in self._samplers.items():
            if role in self._busy or not (seconds := sampler.begin()):
                continue
            seconds *= 1 + len(self._busy)
            self._busy.add(role)
            self._parts[role] += seconds
            heapq.heappush(self._events, (clock + seconds, next(self._order), role, -1))

    def _next_turn(self, owner: int) -> None:
        self._now[owner] = turn = next(self._turns[owner], None)
        if turn is not None:
            self._samplers["agent"].waiting.append(_agent_job(owner, turn, self._kept))

    def _finished(self, role: str, owner: int, clock: float) -> None:
        turn = self._now[owner]
        assert turn is not None
        if role == "ranker" or not turn.searches:
            self._next_turn(owner)
            return
        seconds = turn.searches / self._searches
        self._free = max(self._free, clock) + seconds
        self._parts["search"] += seconds
        heapq.heappush(self._events, (self._free, next(self._order), "search", owner))

    def _searched(self, owner: int) -> None:
        turn = self._now[owner]
        assert turn is not None
        if turn.ranked:
            self._samplers["ranker"].waiting.append(_ranker_job(owner, turn))
        else:
            self._next_turn(owner)


def _keeps(scripts: Sequence[Script], speed: Speed) -> bool:
    """Whether the cache still holds a trajectory's last turn when its next one comes; otherwise the
    turn reads all of the trajectory again."""
    return sum(script[-1].length for script in scripts) <= speed.cache


def _agent_job(owner: int, turn: Turn, kept: bool) -> _Job:
    if kept:
        return _Job(owner, turn.read, turn.context, turn.written)
    return _Job(owner, turn.read + turn.context, 0, turn.written)


def _ranker_job(owner: int, turn: Turn) -> _Job:
    return _Job(owner, turn.call_read, 0, turn.call_written)


def _written(samplers: Mapping[str, _Sampler]) -> dict[str, int]:
    return {role: sampler.written for role, sampler in samplers.items()}


def simulate(outlook: Outlook, folder: Path) -> list[Drive]:
    """The rollout of a round of joint training under every driver.

    The trajectories are those of the training in ``folder``, repeated up to the round's number and
    scaled to the lengths that the profile's plan expects. Raises ValueError where no joint training
    shares the GPUs, and where ``folder`` holds no rollouts.
    """
    layout, machine = outlook.engines.layout(), outlook.machine()
    if layout is None:
        raise ValueError(
            f"--simulate: profile {outlook.settings.profile} samples in the stage's own process;"
            " only samplers on vllm beside a trainer on deepspeed are simulated"
        )
    joint = outlook.joint(machine)
    habits = outlook.work.calibration.habits["generative"]
    replicas = min(rules.replicas for rules in layout.samplers.values())
    of_round = outlook.settings.section(blocks.Train).questions
    of_round *= outlook.settings.method({}).rollout.group_size
    scripts = list(islice(cycle(read_scripts(folder, habits)), of_round // replicas))
    rate = search_rate(outlook.settings.file.plan, machine, outlook.engines)
    searches = rate / outlook.search_flops / replicas
    awake, lent = (_speeds(outlook, layout, joint, lent=lent) for lent in (False, True))
    return [
        in_lockstep(scripts, awake, searches, "lockstep"),
        in_lockstep(scripts, lent, searches, "lockstep, the idle sampler asleep"),
        continuously(scripts, awake, searches, "continuous"),
    ]


def _speeds(outlook: Outlook, layout: Layout, joint: Joint, *, lent: bool) -> dict[str, Speed]:
    """The speed of each role; with ``lent`` it has the other sampler's share of memory too."""
    plan, gpu = outlook.settings.file.plan, joint.machine.gpu
    use, memory, speeds = plan.efficiency, plan.memory, {}
    shares = sum(rules.memory_share for rules in layout.samplers.values())
    for role in joint.roles:
        rules, shape = layout.samplers[role.name], role.shape
        if lent:
            rules = rules.model_copy(update={"memory_share": shares})
        token = forward_flops(shape, role.usual, causal=True) / rules.tensor_parallel
        arithmetic = token / (gpu.peak * TERA * use.prefill)
        moved = gpu.bandwidth * GIGA * use.decode * rules.tensor_parallel
        cached = cache_gib(rules, shape, memory, 1.0)
        speeds[role.name] = Speed(
            read_s=arithmetic,
            weights_s=matrix_weights(shape) * memory.weight_bytes / moved,
            cached_s=cache_bytes(shape, memory.weight_bytes) / moved,
            sequence_s=arithmetic,
            cache=int(share_parts(rules, shape, gpu, memory)["cache"] / cached),
            sequences=rules.max_sequences,
        )
    return speeds
