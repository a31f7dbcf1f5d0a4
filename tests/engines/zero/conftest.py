"""A micro model, and what the torch trainer makes of it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cosearch.engines.policies.ranks import Ranks, join
from tests.engines.zero import worker
from tests.engines.zero.compare import FIVE, Wanted, reference, trained
from tests.micro import save_causal_lm


@pytest.fixture(scope="package")
def ranks() -> Ranks:
    return join()


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("deepspeed")
    save_causal_lm(found / "model")
    return found


@pytest.fixture(scope="package")
def wanted(folder: Path) -> Wanted:
    """The torch trainer after five updates with KL, dual clip, weight decay, warm-up and gradient
    clipping, and their statistics."""
    trainer = reference(worker.plan(folder, 1))
    return trainer, trained(trainer, FIVE)


@pytest.fixture(scope="package")
def first_gradients(folder: Path) -> list[torch.Tensor]:
    """The gradient of the first update, by the torch trainer in one batch."""
    plan = worker.plan(
        folder,
        1,
        rules=replace(worker.RULES, grad_clip=1e9, batch_tokens=10**6, logit_tokens=10**6),
    )
    trainer = reference(plan)
    trainer.update(worker.grouped(), 1.0)
    return [parameter.grad.clone() for parameter in trainer._model.parameters()]
