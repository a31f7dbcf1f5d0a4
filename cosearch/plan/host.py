"""Predicts the host memory of joint training."""

from cosearch.plan.layout import GIB, Layout
from cosearch.plan.memory import Joint, moves


def host_parts(layout: Layout, joint: Joint) -> dict[str, float]:
    """GiB of host memory over all nodes.

    The parts are states that are offloaded, or moved while the samplers work; both copies of the
    weights that the first process hands over in a file; and the index if it lies in host memory. A
    sampler of a policy that learns sleeps without a copy of its weights. That of a frozen one keeps
    it pinned, and torch rounds pinned memory up to powers of two: at most to twice its size.
    """
    zero, memory = layout.trainer, joint.memory
    parts: dict[str, float] = {}
    for role in joint.roles:
        size, rules = role.shape.parameters / GIB, layout.samplers[role.name]
        weights = size * memory.weight_bytes
        if rules.transfer == "file":
            parts[f"{role.name}'s hand-over"] = 2 * weights
        if rules.shared_gpus and moves(zero):
            states = size * (memory.optimizer_bytes + memory.gradient_bytes)
            pinned = 2 * rules.replicas * weights if role.frozen else 0.0
            parts[f"{role.name}'s states, or its samplers asleep"] = max(states, pinned)
        if zero.offload_parameters:
            parts[f"{role.name}'s weights"] = weights
        if zero.offload_optimizer:
            moved = memory.optimizer_bytes + (memory.gradient_bytes if zero.stage >= 2 else 0)
            parts[f"{role.name}'s optimiser"] = size * moved
    if layout.gpus is None:
        parts["index"] = joint.index
    return parts
