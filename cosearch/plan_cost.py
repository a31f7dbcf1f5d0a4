"""FLOPs, hours and cost of a stage on a kind of GPU.

A forward pass takes 2 FLOPs per matrix weight and token, and attention 4 per layer, head dimension
and attended token; a backward pass twice as much (2001.08361, Section 2.1; 2204.02311, Appendix B).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cosearch.plan_load import Load, StageLoad
from cosearch.plan_schema import Architecture, Gpu, Plan

TERA, GIGA, GIB = 1e12, 1e9, 2.0**30
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Machine:
    """GPUs of one kind."""

    name: str
    gpu: Gpu
    count: int


@dataclass(frozen=True, slots=True)
class Cost:
    """One row of a stage: model FLOPs, seconds by kind of work, and what the row costs."""

    flops: float
    seconds: dict[str, float]
    hours: float
    price: float


def matrix_weights(shape: Architecture) -> int:
    """Weights that a token is multiplied with: all but an input embedding that is only looked up.
    A tied embedding is the output layer too."""
    embedding = shape.vocabulary * shape.hidden
    return shape.parameters if shape.tied else shape.parameters - embedding


def forward_flops(shape: Architecture, context: float, *, causal: bool) -> float:
    """FLOPs of one token of a sequence of ``context`` tokens; a causal token attends to half of
    them on average."""
    attended = context / 2 if causal else context
    attention = 4 * shape.layers * shape.heads * shape.head_size * attended
    return 2 * matrix_weights(shape) + attention


def cache_bytes(shape: Architecture, width: int) -> int:
    """Bytes of keys and values per token."""
    return 2 * shape.layers * shape.kv_heads * shape.head_size * width


def load_seconds(load: Load, plan: Plan, machine: Machine, sequences: int) -> dict[str, float]:
    """Seconds of prefill (or encoding), decode and training of a load, of which every replica
    samples ``sequences`` at once."""
    shape, use = plan.architectures[load.architecture], plan.efficiency
    token = forward_flops(shape, load.context, causal=load.causal)
    peak = machine.count * machine.gpu.peak * TERA
    reading = use.encode if load.role == "encoder" else use.prefill
    return {
        "read": load.read * token / (peak * reading),
        "sample": load.sampled * _decode_seconds(load, plan, machine, sequences),
        "update": (load.measured + 3 * load.trained) * token / (peak * use.train),
    }


def sequences_at_once(
    stage: StageLoad, plan: Plan, machine: Machine, resident: float
) -> dict[str, int]:
    """By role, the sequences for which a replica has cache: memory less weights, overhead and
    ``resident`` (all GiB per GPU), shared evenly by the models that sample; at least one."""
    layout = plan.layout
    weights = {
        load.role: plan.architectures[load.architecture].parameters * layout.weight_bytes
        for load in stage.loads
    }
    used = sum(weights.values()) / layout.tensor_parallel / GIB + layout.overhead + resident
    sampling = [load for load in stage.loads if load.sampled]
    room = max(0.0, machine.gpu.memory * layout.sampler_share - used) / max(1, len(sampling))
    found = {}
    for load in sampling:
        shape = plan.architectures[load.architecture]
        size = load.context * cache_bytes(shape, layout.weight_bytes) / layout.tensor_parallel
        found[load.role] = max(1, min(layout.sequences, int(room * GIB / size)))
    return found


def _decode_seconds(load: Load, plan: Plan, machine: Machine, sequences: int) -> float:
    """Seconds per sampled token over all replicas. A step reads the weights once and the cache of
    every running sequence, or is bound by arithmetic when many run."""
    layout, use, shape = plan.layout, plan.efficiency, plan.architectures[load.architecture]
    cached = sequences * load.context * cache_bytes(shape, layout.weight_bytes)
    moved = matrix_weights(shape) * layout.weight_bytes + cached
    step = moved / (machine.gpu.bandwidth * GIGA * use.decode)
    arithmetic = sequences * forward_flops(shape, load.context, causal=True)
    step = max(step, arithmetic / (machine.gpu.peak * TERA * use.prefill))
    return step / (sequences * machine.count)


def stage_cost(
    stage: StageLoad, plan: Plan, machine: Machine, *, index: float, resident: float
) -> Cost:
    """Cost of one row of ``stage``. ``index``: FLOPs of one exact search; ``resident``: GiB per GPU
    that a trainer keeps while its policies sample."""
    seconds = {"read": 0.0, "sample": 0.0, "update": 0.0}
    sequences = sequences_at_once(stage, plan, machine, resident)
    flops = stage.queries * index
    for load in stage.loads:
        for name, value in load_seconds(load, plan, machine, sequences.get(load.role, 1)).items():
            seconds[name] += value
        shape = plan.architectures[load.architecture]
        tokens = load.read + load.sampled + load.measured + 3 * load.trained
        flops += tokens * forward_flops(shape, load.context, causal=load.causal)
    seconds["search"] = stage.queries * index / search_rate(plan, machine)
    hours = sum(seconds.values()) / HOUR
    return Cost(flops, seconds, hours, hours * machine.count * machine.gpu.price)


def search_rate(plan: Plan, machine: Machine) -> float:
    """FLOP/s of an exact search: the host's, or the GPUs' in float32 like encoding."""
    if plan.layout.index_on == "host":
        return plan.efficiency.host_search * TERA
    return machine.count * machine.gpu.peak * TERA * plan.efficiency.encode


def total(costs: Iterable[tuple[int, Cost]]) -> tuple[float, float, float]:
    """FLOPs, hours and price of (rows, cost of one row)."""
    rows = list(costs)
    return (
        sum(count * cost.flops for count, cost in rows),
        sum(count * cost.hours for count, cost in rows),
        sum(count * cost.price for count, cost in rows),
    )
