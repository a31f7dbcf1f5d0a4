"""Predicts the GPU memory of every phase of a round, and whether it fits.

ZeRO stages 1, 2 and 3 split the optimiser states, gradients and weights over the GPUs (1910.02054,
Section 5). Every layer is checkpointed. So the activations are the input of each layer, and all
values of the one layer that is computed again (2205.05198, Section 4, without the attention
matrix).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cosearch.params.engines import DeepSpeed, Vllm
from cosearch.params.plan import Architecture, Memory
from cosearch.plan.cost import Machine
from cosearch.plan.layout import GIB, Layout, cache_gib, share_parts

FLOAT = 4


@dataclass(frozen=True, slots=True)
class Role:
    """A policy that learns.

    A micro-batch has ``batch_tokens`` tokens. The logits of ``trained_tokens`` exist at once.
    ``longest`` and ``usual`` are the tokens of the longest and of the usual sequence. ``frozen``:
    in some row it does not learn.
    """

    name: str
    shape: Architecture
    batch_tokens: int
    trained_tokens: int
    longest: int
    usual: float
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """The memory that one phase needs on each GPU, in GiB by part.

    ``limit`` is the memory of a GPU. ``lacks`` lists what does not fit inside a part.
    """

    phase: str
    parts: Mapping[str, float]
    limit: float
    note: str = ""
    lacks: tuple[str, ...] = ()

    @property
    def peak(self) -> float:
        """Sum of all parts in GiB."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """Whether the phase fits into the memory."""
        return self.peak <= self.limit and not self.lacks

    def reasons(self) -> Iterator[str]:
        """Why the phase does not fit: the missing memory with the largest parts, and every lack."""
        if self.peak > self.limit:
            largest = sorted(self.parts.items(), key=lambda part: -part[1])[:3]
            parts = ", ".join(f"{name} {size:.1f}" for name, size in largest)
            yield (
                f"{self.phase} needs {self.peak:.1f} GiB of {self.limit:.1f}"
                f" ({self.peak - self.limit:.1f} too many): {parts}"
            )
        yield from (f"{self.phase}: {lack}" for lack in self.lacks)


@dataclass(frozen=True, slots=True)
class Joint:
    """Joint training of two roles on a machine. ``index`` is the GiB of the index."""

    roles: tuple[Role, ...]
    machine: Machine
    memory: Memory
    index: float


def state_parts(
    shape: Architecture, zero: DeepSpeed, memory: Memory, count: int
) -> dict[str, float]:
    """GiB per GPU for a trainer's weights, gradients and optimiser states.

    Gradients that are split lie where the optimiser lies, on the GPUs or in host memory.
    """
    size, away = shape.parameters / GIB, zero.offload_optimizer
    weights = size * memory.weight_bytes / (count if zero.stage >= 3 else 1)
    gradients = size * memory.gradient_bytes / (count if zero.stage >= 2 else 1)
    return {
        "weights": 0.0 if zero.offload_parameters else weights,
        "gradients": 0.0 if away and zero.stage >= 2 else gradients,
        "optimiser": 0.0 if away else size * memory.optimizer_bytes / count,
    }


def activation_parts(role: Role, stage: int, memory: Memory, count: int) -> dict[str, float]:
    """GiB per GPU for a micro-batch.

    The parts are the layer inputs, one layer that is computed again with its gradients, the logits
    that exist at once with theirs, and under stage 3 two layers that are gathered at once.
    """
    shape, tokens = role.shape, role.batch_tokens
    width = memory.weight_bytes
    attention = shape.heads * shape.head_size
    inside = 4 * shape.hidden + 2 * attention + 2 * shape.kv_heads * shape.head_size
    layer = tokens * (inside + 3 * shape.feed_forward) * width * 2
    # Logits in the model's type, in float32, their log-softmax, and both gradients.
    logits = role.trained_tokens * shape.vocabulary * (2 * width + 3 * FLOAT)
    embedding = shape.vocabulary * shape.hidden
    blocks = (1 if shape.tied else 2) * embedding
    largest = max(embedding, (shape.parameters - blocks) // shape.layers)
    gathered = 2 * largest * width if stage >= 3 and count > 1 else 0
    return {
        "layer inputs": shape.layers * tokens * shape.hidden * width / GIB,
        "one layer": layer / GIB,
        "logits": logits / GIB,
        "gathered layers": gathered / GIB,
    }


def resident(role: Role, zero: DeepSpeed, memory: Memory, count: int) -> float:
    """GiB per GPU that a role keeps between its updates.

    Stage 3 keeps one permanent buffer of gradients. The other stages free theirs.
    """
    parts = state_parts(role.shape, zero, memory, count)
    return sum(parts.values()) - (zero.stage < 3) * parts["gradients"]


def moves(zero: DeepSpeed) -> bool:
    """Whether a trainer moves its states to host memory while the samplers work. States that are
    offloaded at all times stay where they are."""
    return not (zero.offload_optimizer or zero.offload_parameters)


def resting(role: Role, zero: DeepSpeed, memory: Memory, count: int) -> float:
    """GiB per GPU that a role keeps while the samplers work: its weights if its states move."""
    if moves(zero):
        return state_parts(role.shape, zero, memory, count)["weights"]
    return resident(role, zero, memory, count)


def index_parts(layout: Layout, joint: Joint) -> dict[str, float]:
    """GiB per GPU for the index if it lies on the GPUs, split over them or copied to each."""
    if layout.gpus is None:
        return {}
    size = joint.index / (2 if layout.gpus.float16 else 1)
    return {"index": size / (joint.machine.count if layout.gpus.spread else 1)}


def standing_parts(layout: Layout, joint: Joint, *, training: bool) -> dict[str, float]:
    """GiB per GPU in use beside the shares of the samplers while they sample."""
    count, parts = joint.machine.count, {"overhead": joint.memory.overhead}
    if training and not layout.own_gpus:
        for role in joint.roles:
            kept = resting(role, layout.trainer, joint.memory, count)
            parts[f"{role.name}'s trainer"] = kept
    return parts | index_parts(layout, joint)


def sampling_need(phase: str, layout: Layout, joint: Joint, *, training: bool) -> MemoryNeed:
    """Memory of a phase in which both samplers work: their shares, and all other parts.

    A share must hold the longest sequence of its sampler. The sampler must accept the longest
    sequence of its policy.
    """
    gpu, memory = joint.machine.gpu, joint.memory
    parts: dict[str, float] = {}
    notes, lacks = [], list[str]()
    for role in joint.roles:
        rules = layout.samplers[role.name]
        own = share_parts(rules, role.shape, gpu, memory)
        parts |= {f"{role.name}'s {name}": max(0.0, size) for name, size in own.items()}
        lacks += _share_lacks(role, rules, own["cache"], memory)
        usual = cache_gib(rules, role.shape, memory, role.usual)
        at_once = min(rules.max_sequences, int(max(0.0, own["cache"]) / usual))
        notes.append(f"{role.name} {at_once}")
    parts |= standing_parts(layout, joint, training=training)
    return MemoryNeed(
        phase, parts, gpu.memory, f"sequences at once: {', '.join(notes)}", tuple(lacks)
    )


def _share_lacks(role: Role, rules: Vllm, cache: float, memory: Memory) -> Iterator[str]:
    longest = rules.max_model_tokens or role.longest
    if longest < role.longest:
        yield (
            f"{role.name}.vllm.max_model_tokens {longest}: its prompt and response may have"
            f" {role.longest}"
        )
    least = cache_gib(rules, role.shape, memory, longest)
    if cache < least:
        yield (
            f"{role.name}.vllm.memory_share {rules.memory_share} leaves {max(0.0, cache):.1f} GiB"
            f" of cache, and {longest} tokens take {least:.1f}"
        )


def update_need(role: Role, layout: Layout, joint: Joint) -> MemoryNeed:
    """Memory of an update of one role, beside the other role's states and the awake samplers."""
    gpu, memory, count = joint.machine.gpu, joint.memory, joint.machine.count - layout.own_gpus
    parts = state_parts(role.shape, layout.trainer, memory, count)
    parts |= activation_parts(role, layout.trainer.stage, memory, count)
    parts |= {"overhead": memory.overhead} | index_parts(layout, joint)
    for other in joint.roles:
        rules = layout.samplers[other.name]
        if other.name != role.name:
            kept = resident(other, layout.trainer, memory, count)
            parts[f"{other.name}'s states"] = kept
        if not rules.shared_gpus and not layout.own_gpus:
            parts[f"{other.name}'s sampler"] = rules.memory_share * gpu.memory
    return MemoryNeed(f"update {role.name}", parts, gpu.memory)


def load_need(layout: Layout, joint: Joint) -> MemoryNeed:
    """Memory while the last trainer is made: its own sampler sleeps, and the others are awake. Its
    parameters are parted one by one, so at most one is whole."""
    *before, last = joint.roles
    gpu, memory, count = joint.machine.gpu, joint.memory, joint.machine.count - layout.own_gpus
    parts = {"overhead": memory.overhead} | index_parts(layout, joint)
    for role in before:
        parts[f"{role.name}'s trainer"] = resting(role, layout.trainer, memory, count)
    for role in before if not layout.own_gpus else ():
        parts[f"{role.name}'s sampler"] = layout.samplers[role.name].memory_share * gpu.memory
    parts |= state_parts(last.shape, layout.trainer, memory, count)
    parts["one parameter"] = last.shape.vocabulary * last.shape.hidden * memory.weight_bytes / GIB
    return MemoryNeed("load", parts, gpu.memory)


def gathered(layout: Layout, joint: Joint) -> float:
    """GiB per GPU for the layers that a trainer gathers while both samplers are awake: when it
    hands weights over, and when it measures a probe."""
    count, stage = joint.machine.count - layout.own_gpus, layout.trainer.stage
    if layout.own_gpus:
        return 0.0
    parts = (activation_parts(role, stage, joint.memory, count) for role in joint.roles)
    return max(part["gathered layers"] for part in parts)


def hand_over_need(layout: Layout, joint: Joint) -> MemoryNeed:
    """Memory after an update, when both samplers have woken and the last one is probed."""
    awake = sampling_need("hand over", layout, joint, training=True)
    parts = {**awake.parts, "gathered layers": gathered(layout, joint)}
    return MemoryNeed(awake.phase, parts, awake.limit)


def needs(layout: Layout, joint: Joint) -> list[MemoryNeed]:
    """Memory of every phase of joint training, and of evaluation."""
    return [
        load_need(layout, joint),
        sampling_need("rollout", layout, joint, training=True),
        *(update_need(role, layout, joint) for role in joint.roles),
        hand_over_need(layout, joint),
        sampling_need("evaluate", layout, joint, training=False),
    ]


def largest_share(layout: Layout, joint: Joint) -> float:
    """The largest ``memory_share`` that both samplers can have, a multiple of 0.01.

    It is 0 if the other parts leave no memory.
    """
    limit = joint.machine.gpu.memory
    room = limit - sum(standing_parts(layout, joint, training=True).values())
    room -= gathered(layout, joint)
    return max(0, int(100 * room / limit / len(joint.roles))) / 100


def encode_need(shape: Architecture, tokens: int, memory: Memory, machine: Machine) -> MemoryNeed:
    """Memory of encoding passages in float32 with ``tokens`` per batch. Only one layer's values are
    kept at a time."""
    inside = 6 * shape.hidden + 3 * shape.feed_forward
    parts = {
        "weights": shape.parameters * FLOAT / GIB,
        "activations": tokens * inside * FLOAT / GIB,
        "overhead": memory.overhead,
    }
    return MemoryNeed("encode", parts, machine.gpu.memory)


def index_bytes(
    rows: int, dimension: int, *, pq_m: int | None, hnsw_m: int | None
) -> dict[str, float]:
    """Bytes of an index by kind. Kinds whose parameters are None are left out.

    Inverted lists add an id of 8 bytes per row. A graph adds links of 4 bytes, twice as many on its
    lowest level, and 12 bytes of offsets per row. Centroids are not counted.
    """
    flat: dict[str, float] = {"flat": FLOAT * dimension, "sq8": dimension}
    if pq_m is not None:
        flat["pq"] = pq_m
    per_row = {"flat": FLOAT * dimension, "fp16": 2 * dimension, **flat}
    per_row |= {f"ivf_{name}": size + 8 for name, size in flat.items()}
    if hnsw_m is not None:
        per_row["hnsw"] = FLOAT * dimension + (2 * hnsw_m + hnsw_m / (hnsw_m - 1)) * 4 + 12
    return {kind: rows * size for kind, size in per_row.items()}
