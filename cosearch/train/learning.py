"""The update of one policy (Section 3.4): old log-probabilities first, then optimiser steps."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from cosearch.core.types import Sample
from cosearch.rollouts.policy import Policy


@dataclass(frozen=True, slots=True)
class Prepared:
    """Samples with the trainer's old log-probabilities in place of the sampler's.

    ``measured`` aligns with ``samples``. It is None for a sample whose advantages are all zero,
    which counts in the denominator of the loss only. ``gap_mean`` and ``gap_max`` are absolute
    differences between trainer and sampler, in nats.
    """

    samples: tuple[Sample, ...]
    measured: tuple[list[float] | None, ...]
    gap_mean: float
    gap_max: float


def prepare(policy: Policy, samples: Sequence[Sample], importance_cap: float | None) -> Prepared:
    """Old log-probabilities of one round, measured before any update of it (Eq. 3).

    With ``importance_cap``, every advantage is multiplied by the probability ratio of trainer and
    sampler, cut at the cap.
    """
    assert policy.trainer is not None
    live = [index for index, sample in enumerate(samples) if any(sample.advantages)]
    found = policy.trainer.logprobs([samples[index] for index in live], policy.temperature)
    measured: list[list[float] | None] = [None] * len(samples)
    for index, values in zip(live, found, strict=True):
        measured[index] = values
    gaps = _gaps(samples, measured)
    return Prepared(
        tuple(_with_old(s, v, importance_cap) for s, v in zip(samples, measured, strict=True)),
        tuple(measured),
        math.fsum(gaps) / max(1, len(gaps)),
        max(gaps, default=0.0),
    )


def _gaps(samples: Sequence[Sample], measured: Sequence[list[float] | None]) -> list[float]:
    """Absolute differences between trainer and sampler, one per trained action, in nats."""
    return [
        abs(new - old)
        for sample, values in zip(samples, measured, strict=True)
        if values is not None
        for new, old, flag in zip(values, sample.old_logprobs, sample.loss_mask, strict=True)
        if flag
    ]


def _with_old(sample: Sample, values: list[float] | None, cap: float | None) -> Sample:
    if values is None:
        return sample
    advantages = sample.advantages
    if cap is not None:
        advantages = [
            advantage * min(cap, math.exp(new - old))
            for advantage, new, old in zip(advantages, values, sample.old_logprobs, strict=True)
        ]
    return replace(sample, old_logprobs=values, advantages=advantages)


def learn(policy: Policy, samples: Sequence[Sample], *, per_update: int, seed: int) -> list[Any]:
    """One pass over ``samples`` in ``ceil(n / per_update)`` updates, without a hand-over.

    The samples are shuffled by ``seed`` and split evenly. Returns the statistics of each update.
    """
    assert policy.trainer is not None
    if not samples:
        return []
    order = list(range(len(samples)))
    random.Random(seed).shuffle(order)
    updates = math.ceil(len(samples) / per_update)
    edges = [round(number * len(order) / updates) for number in range(updates + 1)]
    return [
        policy.trainer.update([samples[i] for i in order[start:end]], policy.temperature)
        for start, end in pairwise(edges)
    ]
