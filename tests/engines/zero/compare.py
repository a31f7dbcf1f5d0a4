"""What the tests of the DeepSpeed trainer compare, and how closely."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
import torch

from cosearch.core.types import Sample
from cosearch.engines.policies.heads import CausalHead, Head
from cosearch.engines.policies.step import UpdateStats
from cosearch.engines.policies.trainer_torch import TorchTrainer
from cosearch.engines.policies.zero import TrainingPlan
from tests.engines.zero import worker
from tests.micro import VOCABULARY

FIVE = [worker.grouped(7 - update) for update in range(worker.UPDATES)]
Wanted = tuple[TorchTrainer, list[UpdateStats]]
"""A trainer after five updates, and their statistics."""


def reference(plan: TrainingPlan, head: Head | None = None) -> TorchTrainer:
    """The torch trainer of the same plan."""
    return TorchTrainer(
        plan.folder,
        head=head or CausalHead(VOCABULARY),
        dtype=plan.zero.dtype,
        rules=plan.optimizer,
        loss=plan.loss,
        scratch=Path(plan.scratch),
    )


def assert_alike(found: UpdateStats | dict[str, Any], wanted: UpdateStats) -> None:
    record = found if isinstance(found, dict) else asdict(found)
    for name in (field.name for field in fields(wanted)):
        assert record[name] == pytest.approx(getattr(wanted, name), rel=1e-3, abs=1e-4), name
    assert record["trained_tokens"] == wanted.trained_tokens


def assert_same_weights(found: Mapping[str, torch.Tensor], wanted: TorchTrainer) -> None:
    state = wanted.weights()
    assert set(found) == set(state)
    for name, tensor in state.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=2e-5)


def trained(trainer: Any, batches: Sequence[Sequence[Sample]]) -> list[UpdateStats]:
    return [trainer.update(batch, 0.9) for batch in batches]


def assert_same_gradients(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    scale = max(float(gradient.abs().max()) for gradient in expected)
    assert scale > 0
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-5 * scale)


def assert_same_logprobs(
    found: Sequence[Sequence[float]], wanted: Sequence[Sequence[float]], tolerance: float = 1e-3
) -> None:
    for left, right in zip(found, wanted, strict=True):
        assert left == pytest.approx(right, abs=tolerance)
