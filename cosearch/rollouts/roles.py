"""The policies of a row: which role starts from which model folder, and which roles learn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosearch.engines.policies.build import ModelBlock
from cosearch.params import blocks
from cosearch.rollouts.pipelines import HEADS
from cosearch.rollouts.policy import Policy
from cosearch.rollouts.wiring import Learning, Parts, open_learner, open_policy


@dataclass(frozen=True, slots=True)
class RoleTraining:
    """What training adds to the roles of an evaluation."""

    learners: Sequence[str]
    """Roles that are trained; their trainers keep files in ``scratch``."""
    scratch: Path
    shared: bool
    """The ranker is the agent's very policy."""
    train: blocks.Train
    """Rates, sizes of updates and the engine that trains."""
    simulator: blocks.Simulator | None
    """How the role ``simulator`` is sampled, where the row has one."""


def open_policies(
    parts: Parts, kind: str, folders: Mapping[str, str], training: RoleTraining | None = None
) -> dict[str, Policy]:
    """The policy of every role in ``folders``, under a ranker of ``kind``. A role that does not
    learn is frozen and decodes at the temperature of evaluation."""
    frozen: dict[str, ModelBlock] = {
        "agent": parts.agent,
        "ranker": parts.ranker,
    }
    if training is not None and training.simulator is not None:
        frozen["simulator"] = training.simulator
    policies: dict[str, Policy] = {}
    for role, folder in folders.items():
        head = HEADS.get(kind, "causal") if role == "ranker" else "causal"
        if training is not None and training.shared and role == "ranker":
            policies[role] = policies["agent"]
        elif training is not None and role in training.learners:
            policies[role] = _open_learner(parts, role, folder, training, head)
        else:
            greedy = parts.method.rollout.eval_temperature
            policies[role] = open_policy(folder, frozen[role], greedy, head)
    return policies


def _open_learner(
    parts: Parts, role: str, folder: str, training: RoleTraining, head: str
) -> Policy:
    """The agent or the ranker as a policy that learns, under the rules of its role."""
    rollout, train = parts.method.rollout, training.train
    if role == "agent":
        longest = parts.agent.max_response_tokens
        rules = Learning(parts.agent, rollout.agent_temperature, train.agent_lr, longest, train)
    else:
        longest = parts.ranker.max_turn_tokens
        rules = Learning(parts.ranker, rollout.ranker_temperature, train.ranker_lr, longest, train)
    return open_learner(folder, rules, parts, training.scratch, head)
