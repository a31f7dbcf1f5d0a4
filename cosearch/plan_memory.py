"""GPU and host memory of every phase of a round, and whether it fits.

Optimiser states, gradients and weights are split over the GPUs by ZeRO stages 1, 2 and 3
(1910.02054, Section 5). Activations are those of checkpointing every layer: the input of each, and
one layer's own while it is computed again (2205.05198, Section 4, without the attention matrix).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cosearch.plan_cost import GIB, Machine, cache_bytes
from cosearch.plan_schema import Architecture, Layout

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
class Need:
    """What one phase takes on each GPU, in GiB by part, against what may be used."""

    phase: str
    parts: Mapping[str, float]
    limit: float
    note: str = ""

    @property
    def peak(self) -> float:
        """GiB in all."""
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        """Whether the phase fits into the memory it may use."""
        return self.peak <= self.limit

    def reason(self) -> str:
        """Why it does not fit: what is missing, and the largest parts."""
        largest = sorted(self.parts.items(), key=lambda part: -part[1])[:3]
        parts = ", ".join(f"{name} {size:.1f}" for name, size in largest)
        return (
            f"{self.phase} needs {self.peak:.1f} GiB of {self.limit:.1f}"
            f" ({self.peak - self.limit:.1f} too many): {parts}"
        )


def state_parts(shape: Architecture, layout: Layout, count: int) -> dict[str, float]:
    """GiB per GPU of a trainer's weights, gradients and optimiser states."""
    stage, size = layout.zero_stage, shape.parameters / GIB
    on_gpu = layout.offload != "optimizer"
    return {
        "weights": size * layout.weight_bytes / (count if stage >= 3 else 1),
        "gradients": size * layout.gradient_bytes / (count if stage >= 2 else 1),
        "optimiser": on_gpu * size * layout.optimizer_bytes / (count if stage >= 1 else 1),
    }


def activation_parts(role: Role, layout: Layout, count: int) -> dict[str, float]:
    """GiB per GPU of a micro-batch: layer inputs, one layer computed again with its gradients,
    logits of the trained tokens with theirs, and under stage 3 two layers gathered at once."""
    shape, tokens = role.shape, role.batch_tokens
    width = layout.weight_bytes
    attention = shape.heads * shape.head_size
    inside = 4 * shape.hidden + 2 * attention + 2 * shape.kv_heads * shape.head_size
    layer = tokens * (inside + 3 * shape.feed_forward) * width * 2
    # Logits in the model's type, in float32, their log-softmax, and the gradient.
    logits = role.trained_tokens * shape.vocabulary * (width + 3 * FLOAT)
    embedding = shape.vocabulary * shape.hidden
    blocks = (1 if shape.tied else 2) * embedding
    largest = max(embedding, (shape.parameters - blocks) // shape.layers)
    gathered = 2 * largest * width if layout.zero_stage >= 3 and count > 1 else 0
    return {
        "layer inputs": shape.layers * tokens * shape.hidden * width / GIB,
        "one layer": layer / GIB,
        "logits": logits / GIB,
        "gathered layers": gathered / GIB,
    }


def sampler_weights(roles: tuple[Role, ...], layout: Layout) -> float:
    """GiB per GPU of the samplers' weights, which tensor parallelism splits."""
    parameters = sum(role.shape.parameters for role in roles)
    return parameters * layout.weight_bytes / layout.tensor_parallel / GIB


def resident(role: Role, layout: Layout, count: int) -> float:
    """GiB per GPU that a role keeps between its updates; its gradients are freed."""
    parts = state_parts(role.shape, layout, count)
    return 0.0 if layout.offload == "idle" else parts["weights"] + parts["optimiser"]


def sampling_need(
    phase: str,
    roles: tuple[Role, ...],
    layout: Layout,
    machine: Machine,
    *,
    training: bool,
    index: float,
) -> Need:
    """Sampling: both samplers, in training whatever states stay, and as much cache as is left, up
    to the wanted number of sequences; at least the longest sequence of each policy. ``index``: GiB
    of an index on the GPUs."""
    parts = {"sampler weights": sampler_weights(roles, layout), "overhead": layout.overhead}
    if training:
        for role in roles:
            parts[f"{role.name}'s states"] = resident(role, layout, machine.count)
    if index:
        parts["index"] = index / machine.count
    limit = machine.gpu.memory * layout.sampler_share
    room = limit - sum(parts.values())
    least = {role.name: _cache(role, layout, role.longest) for role in roles}
    wanted = {role.name: _cache(role, layout, role.usual) * layout.sequences for role in roles}
    share = min(1.0, max(0.0, room) / sum(wanted.values()))
    given = {name: max(least[name], share * size) for name, size in wanted.items()}
    if sum(given.values()) > room:
        given = least
    parts |= {f"{name}'s cache": size for name, size in given.items()}
    at_once = [f"{role.name} {_sequences(role, layout, given[role.name])}" for role in roles]
    return Need(phase, parts, limit, f"sequences at once: {', '.join(at_once)}")


def update_need(role: Role, roles: tuple[Role, ...], layout: Layout, machine: Machine) -> Need:
    """An update of one role; the other role's states stay unless idle ones are offloaded."""
    parts = state_parts(role.shape, layout, machine.count)
    parts |= activation_parts(role, layout, machine.count)
    parts["overhead"] = layout.overhead
    for other in roles:
        if other.name != role.name:
            parts[f"{other.name}'s states"] = resident(other, layout, machine.count)
    if not layout.sleep:
        parts["sampler weights"] = sampler_weights(roles, layout)
    return Need(f"update {role.name}", parts, machine.gpu.memory)


def needs(roles: tuple[Role, ...], layout: Layout, machine: Machine, index: float) -> list[Need]:
    """Every phase of joint training, and evaluation."""
    updates = [update_need(role, roles, layout, machine) for role in roles]
    rollout, evaluate = (
        sampling_need(phase, roles, layout, machine, training=training, index=index)
        for phase, training in (("rollout", True), ("evaluate", False))
    )
    return [rollout, *updates, evaluate]


def encode_need(shape: Architecture, tokens: int, layout: Layout, machine: Machine) -> Need:
    """Encoding passages in float32, ``tokens`` in a batch; a layer's values are kept no longer."""
    inside = 6 * shape.hidden + 3 * shape.feed_forward
    parts = {
        "weights": shape.parameters * FLOAT / GIB,
        "activations": tokens * inside * FLOAT / GIB,
        "overhead": layout.overhead,
    }
    return Need("encode", parts, machine.gpu.memory)


def host_parts(roles: tuple[Role, ...], layout: Layout, index: float) -> dict[str, float]:
    """GiB of host memory over all nodes: offloaded states, and an index that lies there."""
    parts: dict[str, float] = {}
    for role in roles:
        size = role.shape.parameters / GIB
        if layout.offload == "idle":
            size *= layout.weight_bytes + layout.optimizer_bytes
            parts[f"{role.name}'s states"] = size
        if layout.offload == "optimizer":
            parts[f"{role.name}'s optimiser"] = size * layout.optimizer_bytes
    if layout.index_on == "host":
        parts["index"] = index
    return parts


def alternatives(
    roles: tuple[Role, ...], layout: Layout, machine: Machine, index: float
) -> list[Layout]:
    """Layouts that fit, the ones nearest to ``layout`` first; ``layout`` itself is not among
    them."""
    tried = [
        layout.model_copy(update={"zero_stage": stage, "offload": offload})
        for offload in ("none", "idle", "optimizer")
        for stage in sorted((1, 2, 3), key=lambda stage: abs(stage - layout.zero_stage))
    ]
    return [
        other
        for other in tried
        if other != layout and all(need.fits for need in needs(roles, other, machine, index))
    ]


def index_bytes(rows: int, dimension: int, *, pq_bytes: int, hnsw_links: int) -> dict[str, float]:
    """Bytes of an index by kind. An inverted file adds an id of 8 bytes a row (and its centroids,
    left out), a graph twice its links of 4 bytes."""
    flat = {"flat": FLOAT * dimension, "fp16": 2 * dimension, "sq8": dimension, "pq": pq_bytes}
    per_row: dict[str, float] = {
        **flat,
        **{f"ivf_{name}": size + 8 for name, size in flat.items()},
        "hnsw": FLOAT * dimension + 2 * 4 * hnsw_links,
    }
    return {kind: rows * size for kind, size in per_row.items()}


def _cache(role: Role, layout: Layout, tokens: float) -> float:
    return tokens * cache_bytes(role.shape, layout.weight_bytes) / layout.tensor_parallel / GIB


def _sequences(role: Role, layout: Layout, given: float) -> int:
    return int(given / _cache(role, layout, role.usual))
