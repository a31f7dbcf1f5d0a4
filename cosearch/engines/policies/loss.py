"""The clipped surrogate (Eq. 3) as a weighted sum over tokens.

The weight of a token is fixed before any batch is cut, from the samples of the whole optimiser
step. So the gradient is the same for every micro-batch size, accumulation count and process count.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from cosearch.core.types import Sample
from cosearch.params.method import Loss


@dataclass(frozen=True, slots=True)
class LossRules:
    """``aggregation``: ``sum_per_sequence`` (Eq. 3: tokens summed, sequences averaged),
    ``token_mean``, ``sequence_mean``, ``constant_length`` (tokens summed over ``max_tokens``,
    sequences averaged), or ``per_group_mean`` (tokens summed, sequences averaged inside their
    group first, then the groups that an update holds). ``kl_coef`` weighs the k3 estimate to the
    initial model."""

    clip_eps: float
    aggregation: str
    dual_clip: float | None
    kl_coef: float
    max_tokens: int

    @classmethod
    def of(cls, loss: Loss, max_tokens: int) -> "LossRules":
        """The rules of the parameters, with the constant length of one policy."""
        return cls(loss.clip_eps, loss.aggregation, loss.dual_clip, loss.kl_coef, max_tokens)


def sequence_weights(samples: Sequence[Sample], rules: LossRules) -> list[float]:
    """The weight of each trained token of each sample; one global denominator per step."""
    tokens = [sum(sample.loss_mask) for sample in samples]
    count = len(samples)
    match rules.aggregation:
        case "sum_per_sequence":
            return [1 / count] * count
        case "token_mean":
            return [1 / sum(tokens)] * count
        case "sequence_mean":
            return [1 / (count * max(1, n)) for n in tokens]
        case "constant_length":
            return [1 / (count * rules.max_tokens)] * count
        case "per_group_mean":
            members = Counter(sample.group for sample in samples)
            return [1 / (len(members) * members[sample.group]) for sample in samples]
    raise ValueError(f"unknown loss aggregation {rules.aggregation!r}")


def running(samples: Sequence[Sample], rules: LossRules) -> list[int]:
    """The places of the samples that run through the model: those with an advantage, or all under
    a KL term. Any other sample counts in the denominator alone, because its gradient is zero."""
    return [n for n, s in enumerate(samples) if rules.kl_coef or any(s.advantages)]


def token_losses(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    rules: LossRules,
) -> torch.Tensor:
    """Negative clipped surrogate per token; all arguments are [tokens]."""
    ratio = torch.exp(logprobs - old_logprobs)
    clipped = ratio.clamp(1 - rules.clip_eps, 1 + rules.clip_eps)
    surrogate = torch.minimum(ratio * advantages, clipped * advantages)
    if rules.dual_clip is not None:
        floor = torch.maximum(surrogate, rules.dual_clip * advantages)
        surrogate = torch.where(advantages < 0, floor, surrogate)
    return -surrogate


def kl_to_reference(logprobs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """k3 estimate of KL(policy || reference) per token: ``exp(d) - d - 1``, d = ref - policy."""
    difference = reference - logprobs
    return torch.exp(difference) - difference - 1
