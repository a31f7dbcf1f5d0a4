"""FLOPs, hours and cost of a stage on a kind of GPU.

A forward pass takes 2 FLOPs per matrix weight and token, and attention 4 per layer, head dimension
and attended token; a backward pass twice as much (2001.08361, Section 2.1; 2204.02311, Appendix B).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cosearch.params.plan import Architecture, Gpu, Plan
from cosearch.plan.layout import Engines, SamplerLayout, cache_bytes
from cosearch.plan.load import Load, StageLoad

TERA, GIGA = 1e12, 1e9
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Machine:
    """``count`` GPUs of one kind."""

    name: str
    gpu: Gpu
    count: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one row of a stage: model FLOPs, seconds by kind of work, hours, and price in USD."""

    flops: float
    seconds: dict[str, float]
    hours: float
    price: float


def matrix_weights(shape: Architecture) -> int:
    """Number of weights in the matrix products of a token.

    An input embedding is looked up, so it does not count. A tied one is also the output layer, so
    it does.
    """
    embedding = shape.vocabulary * shape.hidden
    return shape.parameters if shape.tied else shape.parameters - embedding


def forward_flops(shape: Architecture, context: float, *, causal: bool) -> float:
    """FLOPs of one token in a sequence of ``context`` tokens.

    A causal token attends to half of them on average.
    """
    attended = context / 2 if causal else context
    attention = 4 * shape.layers * shape.heads * shape.head_size * attended
    return 2 * matrix_weights(shape) + attention


def load_seconds(load: Load, plan: Plan, machine: Machine, engines: Engines) -> dict[str, float]:
    """Seconds of a load by kind of work: prefill or encoding, decode, and training.

    A model that generates text runs on the GPUs of its replicas. A trainer without DeepSpeed runs
    on one GPU. All other work runs on all GPUs.
    """
    shape, use = plan.architectures[load.architecture], plan.efficiency
    token = forward_flops(shape, load.context, causal=load.causal)
    one = machine.gpu.peak * TERA
    sampler = engines.samplers[load.role] if load.sampled else None
    reading = machine.count if sampler is None else sampler.replicas(machine.count) * sampler.width
    training = machine.count if engines.trainer is not None else 1
    speed = use.encode if load.role == "encoder" else use.prefill
    return {
        "read": load.read * token / (one * reading * speed),
        "sample": _decode_seconds(load, plan, machine, sampler) if sampler else 0.0,
        "update": (load.measured + 3 * load.trained) * token / (one * training * use.train),
    }


def _decode_seconds(load: Load, plan: Plan, machine: Machine, sampler: SamplerLayout) -> float:
    """Seconds of all sampled tokens.

    In a decoding step a replica reads the weights once and the cache of every running sequence.
    With many sequences the arithmetic takes longer than the reading, and then it counts instead.
    """
    use, shape = plan.efficiency, plan.architectures[load.architecture]
    width = plan.memory.weight_bytes
    sequences = sampler.sequences(shape, load.context, machine.gpu, plan.memory)
    cached = sequences * load.context * cache_bytes(shape, width)
    moved = matrix_weights(shape) * width + cached
    step = moved / (machine.gpu.bandwidth * GIGA * use.decode)
    arithmetic = sequences * forward_flops(shape, load.context, causal=True)
    step = max(step, arithmetic / (machine.gpu.peak * TERA * use.prefill)) / sampler.width
    return load.sampled * step / (sequences * sampler.replicas(machine.count))


def stage_cost(
    stage: StageLoad, plan: Plan, machine: Machine, engines: Engines, index: float
) -> Cost:
    """Cost of one row of ``stage``. ``index`` is the FLOPs of one exact search."""
    seconds = {"read": 0.0, "sample": 0.0, "update": 0.0}
    flops = stage.queries * index
    for load in stage.loads:
        for name, value in load_seconds(load, plan, machine, engines).items():
            seconds[name] += value
        shape = plan.architectures[load.architecture]
        tokens = load.read + load.sampled + load.measured + 3 * load.trained
        flops += tokens * forward_flops(shape, load.context, causal=load.causal)
    seconds["search"] = stage.queries * index / search_rate(plan, machine, engines)
    hours = sum(seconds.values()) / HOUR
    return Cost(flops, seconds, hours, hours * machine.count * machine.gpu.price)


def search_rate(plan: Plan, machine: Machine, engines: Engines) -> float:
    """FLOP/s of an exact search on the host, or on the GPUs, where it runs in float32 as encoding
    does."""
    if engines.gpus is None:
        return engines.search_threads * plan.efficiency.host_search * TERA
    return machine.count * machine.gpu.peak * TERA * plan.efficiency.encode


def total_cost(costs: Iterable[tuple[int, Cost]]) -> tuple[float, float, float]:
    """Sums of FLOPs, hours and price. ``costs`` are pairs of (number of rows, cost of one row)."""
    rows = list(costs)
    return (
        sum(count * cost.flops for count, cost in rows),
        sum(count * cost.hours for count, cost in rows),
        sum(count * cost.price for count, cost in rows),
    )
