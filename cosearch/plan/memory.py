"""GPU and host memory of every phase of a round, and whether it fits.

Optimiser states, gradients and weights are split over the GPUs by ZeRO stages 1, 2 and 3
(1910.02054, Section 5). Activations are those of checkpointing every layer: the input of each, and
one layer's own while it is computed again (2205.05198, Section 4, without the attention matrix).
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
    """A learning policy: its shape, the tokens of a micro-batch, how many of them are trained, and
    the longest and the usual sequence."""

    name: str
    shape: Architecture
    batch_tokens: int
    trained_tokens: int
    longest: int
    usual: float


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What one phase takes on each GPU, in GiB by part, against what there is. ``lacks``: what does
    not fit inside a part."""

    phase: str
    parts: Mapping[str, float]
    limit: float
    note: str = ""
    lacks: tuple[str, ...] = ()

    @property
    def peak(self) -> float:
        """GiB in all."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """Whether the phase fits into the memory."""
        return self.peak <= self.limit and not self.lacks

    def reasons(self) -> Iterator[str]:
        """Why it does not fit: what is missing and the largest parts, and every lack."""
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
    """Joint training of two roles on a machine. ``index``: GiB of the index."""

    roles: tuple[Role, ...]
    machine: Machine
    memory: Memory
    index: float


def state_parts(
    shape: Architecture, zero: DeepSpeed, memory: Memory, count: int
) -> dict[str, float]:
    """GiB per GPU of a trainer's weights, gradients and optimiser states. Gradients that are split
    go where the optimiser is."""
    size, away = shape.parameters / GIB, zero.offload_optimizer
    weights = size * memory.weight_bytes / (count if zero.stage >= 3 else 1)
    gradients = size * memory.gradient_bytes / (count if zero.stage >= 2 else 1)
    return {
        "weights": 0.0 if zero.offload_parameters else weights,
        "gradients": 0.0 if away and zero.stage >= 2 else gradients,
        "optimiser": 0.0 if away else size * memory.optimizer_bytes / count,
    }


def activation_parts(role: Role, stage: int, memory: Memory, count: int) -> dict[str, float]:
    """GiB per GPU of a micro-batch: layer inputs, one layer computed again with its gradients,
    logits of the trained tokens with theirs, and under stage 3 two layers gathered at once."""
    shape, tokens = role.shape, role.batch_tokens
    width = memory.weight_bytes
    attention = shape.heads * shape.head_size
    inside = 4 * shape.hidden + 2 * attention + 2 * shape.kv_heads * shape.head_size
    layer = tokens * (inside + 3 * shape.feed_forward) * width * 2
    # Logits in the model's type, in float32, their log-softmax, and the gradient.
    logits = role.trained_tokens * shape.vocabulary * (width + 3 * FLOAT)
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
    """GiB per GPU that a role keeps between its updates. Stage 3 holds its gradients in one lasting
    piece; the others free them."""
    parts = state_parts(role.shape, zero, memory, count)
    return sum(parts.values()) - (zero.stage < 3) * parts["gradients"]


def index_parts(layout: Layout, joint: Joint) -> dict[str, float]:
    """GiB per GPU of an index that lies on the GPUs, spread over them or copied to each."""
    if layout.gpus is None:
        return {}
    size = joint.index / (2 if layout.gpus.float16 else 1)
    return {"index": size / (joint.machine.count if layout.gpus.spread else 1)}


def standing_parts(layout: Layout, joint: Joint, *, training: bool) -> dict[str, float]:
    """GiB per GPU that lie beside the samplers' shares while they sample."""
    count, parts = joint.machine.count, {"overhead": joint.memory.overhead}
    if training and not layout.own_gpus:
        for role in joint.roles:
            kept = resident(role, layout.trainer, joint.memory, count)
            parts[f"{role.name}'s states"] = kept
    return parts | index_parts(layout, joint)


def sampling_need(phase: str, layout: Layout, joint: Joint, *, training: bool) -> MemoryNeed:
    """Both samplers' shares, and what stands beside them. A share must hold the longest sequence
    that its sampler takes, and that one the longest of its policy."""
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
    """An update of one role, beside the other's states and samplers that stay awake."""
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


def needs(layout: Layout, joint: Joint) -> list[MemoryNeed]:
    """Every phase of joint training, and evaluation."""
    rollout = sampling_need("rollout", layout, joint, training=True)
    updates = [update_need(role, layout, joint) for role in joint.roles]
    return [rollout, *updates, sampling_need("evaluate", layout, joint, training=False)]


def largest_share(layout: Layout, joint: Joint) -> float:
    """The largest equal ``memory_share`` of the samplers beside what stands there, in hundredths;
    0 where there is no room."""
    limit = joint.machine.gpu.memory
    room = limit - sum(standing_parts(layout, joint, training=True).values())
    return max(0, int(100 * room / limit / len(joint.roles))) / 100


def encode_need(shape: Architecture, tokens: int, memory: Memory, machine: Machine) -> MemoryNeed:
    """Encoding passages in float32, ``tokens`` in a batch; a layer's values are kept no longer."""
    inside = 6 * shape.hidden + 3 * shape.feed_forward
    parts = {
        "weights": shape.parameters * FLOAT / GIB,
        "activations": tokens * inside * FLOAT / GIB,
        "overhead": memory.overhead,
    }
    return MemoryNeed("encode", parts, machine.gpu.memory)


def host_parts(layout: Layout, joint: Joint) -> dict[str, float]:
    """GiB of host memory over all nodes: offloaded states, weights of samplers asleep, both sides
    of a hand-over in the first process, and an index that lies there."""
    zero, memory = layout.trainer, joint.memory
    parts: dict[str, float] = {}
    for role in joint.roles:
        size, rules = role.shape.parameters / GIB, layout.samplers[role.name]
        weights = size * memory.weight_bytes
        parts[f"{role.name}'s hand-over"] = 2 * weights
        if rules.shared_gpus:
            parts[f"{role.name}'s samplers asleep"] = rules.replicas * weights
        if zero.offload_parameters:
            parts[f"{role.name}'s weights"] = weights
        if zero.offload_optimizer:
            moved = memory.optimizer_bytes + (memory.gradient_bytes if zero.stage >= 2 else 0)
            parts[f"{role.name}'s optimiser"] = size * moved
    if layout.gpus is None:
        parts["index"] = joint.index
    return parts


def index_bytes(
    rows: int, dimension: int, *, pq_m: int | None, hnsw_m: int | None
) -> dict[str, float]:
    """Bytes of an index by kind, as far as its parameters are given. Lists add an id of 8 bytes a
    row, a graph its links: 4 bytes each, twice as many on the ground, and 12 bytes of places.
    Centroids are left out."""
    flat: dict[str, float] = {"flat": FLOAT * dimension, "sq8": dimension}
    if pq_m is not None:
        flat["pq"] = pq_m
    per_row = {"flat": FLOAT * dimension, "fp16": 2 * dimension, **flat}
    per_row |= {f"ivf_{name}": size + 8 for name, size in flat.items()}
    if hnsw_m is not None:
        per_row["hnsw"] = FLOAT * dimension + (2 * hnsw_m + hnsw_m / (hnsw_m - 1)) * 4 + 12
    return {kind: rows * size for kind, size in per_row.items()}
