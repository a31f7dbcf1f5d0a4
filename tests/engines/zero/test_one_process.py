"""The DeepSpeed trainer does what the torch trainer does, over any number of processes.

Tolerances: both work in float32 and add the same terms in another order. A gradient agrees within
1e-5 of the largest one; after five AdamW steps of 1e-3, losses agree within 1e-3 and weights within
2e-5, a fiftieth of one step. DeepSpeed's own copy of weights and gradients is float32 whatever the
model is, so 1e-12 in float64 is the torch trainer's test alone.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import deepspeed
import pytest
import torch

from cosearch.core.protocols import NotFinite
from cosearch.engines.policies.heads import PickHead
from cosearch.engines.policies.ranks import Ranks
from cosearch.engines.policies.trainer_deepspeed import DeepSpeedTrainer
from cosearch.engines.policies.zero import DTYPES
from tests.engines.zero import worker
from tests.engines.zero.compare import (
    FIVE,
    Wanted,
    assert_alike,
    assert_same_gradients,
    assert_same_logprobs,
    assert_same_weights,
    reference,
    trained,
)
from tests.micro import pick_samples, save_causal_lm, save_scorer

STAGES = (1, 2, 3)


@pytest.mark.parametrize("stage", STAGES)
def test_one_process_agrees_with_torch_over_five_updates(
    ranks: Ranks, folder: Path, wanted: Wanted, stage: int
) -> None:
    expected, statistics = wanted
    trainer = DeepSpeedTrainer(ranks, worker.plan(folder, stage))
    for found, other in zip(trained(trainer, FIVE), statistics, strict=True):
        assert_alike(found, other)
    assert trainer.version == worker.UPDATES
    assert_same_weights(trainer.weights(), expected)
    assert_same_logprobs(trainer.logprobs(FIVE[0], 0.9), expected.logprobs(FIVE[0], 0.9))


@pytest.mark.parametrize("tokens", [1, 10**6])
@pytest.mark.parametrize("stage", STAGES)
def test_micro_batches_do_not_change_the_gradient(
    ranks: Ranks, folder: Path, first_gradients: list[torch.Tensor], stage: int, tokens: int
) -> None:
    found = worker.first_gradients(ranks, folder, stage, tokens)
    assert_same_gradients(found, first_gradients)


@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        (2, {"offload_optimizer": True}),
        (3, {"offload_optimizer": True, "offload_parameters": True}),
        (2, {"gradient_checkpointing": True}),
        (3, {"gradient_checkpointing": True}),
    ],
    ids=str,
)
def test_saving_memory_changes_no_step(
    ranks: Ranks,
    folder: Path,
    wanted: Wanted,
    stage: int,
    changes: dict[str, bool],
) -> None:
    trainer = DeepSpeedTrainer(ranks, worker.plan(folder, stage, **changes))
    for found, other in zip(trained(trainer, FIVE), wanted[1], strict=True):
        assert_alike(found, other)
    assert_same_weights(trainer.weights(), wanted[0])


@pytest.mark.parametrize("stage", STAGES)
def test_a_trainer_that_leaves_its_device_between_updates_makes_the_same_steps(
    ranks: Ranks, folder: Path, stage: int
) -> None:
    straight, trainer = (DeepSpeedTrainer(ranks, worker.plan(folder, stage)) for _ in range(2))
    for batch in FIVE[:3]:
        straight.update(batch, 0.9)
        trainer.sleep()
        trainer.sleep()
        assert trainer.logprobs(batch, 0.9) == trainer.logprobs(batch, 0.9)
        trainer.update(batch, 0.9)
    assert trainer.checksum() == straight.checksum()


def test_no_device_holds_a_whole_model_at_stage_3(
    ranks: Ranks, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeepSpeed moves what it is given to the device; by then all parameters are parted."""
    whole: list[int] = []
    initialize = deepspeed.initialize

    def watched(**given: Any) -> Any:
        whole.append(sum(parameter.numel() for parameter in given["model"].parameters()))
        return initialize(**given)

    monkeypatch.setattr(deepspeed, "initialize", watched)
    for stage in STAGES:
        DeepSpeedTrainer(ranks, worker.plan(folder, stage))
    assert whole[0] == whole[1] > whole[2] == 0


@pytest.mark.parametrize("checkpointing", [False, True])
def test_checkpointed_layers_run_again_in_the_backward_pass(
    ranks: Ranks, folder: Path, checkpointing: bool
) -> None:
    rules, loss = replace(worker.RULES, batch_tokens=10**6), replace(worker.LOSS, kl_coef=0.0)
    plan = worker.plan(folder, 2, rules=rules, loss=loss, gradient_checkpointing=checkpointing)
    trainer = DeepSpeedTrainer(ranks, plan)
    passes = []
    layer = trainer._shard._engine.module.model.model.layers[0].mlp
    layer.register_forward_pre_hook(lambda *_: passes.append(1))
    trainer.update(worker.grouped(), 1.0)
    assert len(passes) == 1 + checkpointing


def test_bfloat16_trains_close_to_float32(ranks: Ranks, folder: Path, wanted: Wanted) -> None:
    for stage in STAGES:
        trainer = DeepSpeedTrainer(ranks, worker.plan(folder, stage, dtype="bfloat16"))
        first = trainer.update(FIVE[0], 0.9)
        assert first.loss == pytest.approx(wanted[1][0].loss, rel=0.1, abs=0.1)
        assert first.grad_norm == pytest.approx(wanted[1][0].grad_norm, rel=0.1)
        assert {tensor.dtype for tensor in trainer.weights().values()} == {torch.bfloat16}


def test_a_scorer_is_trained_alike(ranks: Ranks, tmp_path: Path) -> None:
    save_scorer(tmp_path / "model")
    plan = worker.plan(tmp_path, 3, vocabulary=None)
    expected, trainer = reference(plan, PickHead()), DeepSpeedTrainer(ranks, plan)
    for _ in range(2):
        assert_alike(trainer.update(pick_samples(), 0.9), expected.update(pick_samples(), 0.9))
    assert_same_weights(trainer.weights(), expected)


@pytest.mark.parametrize("stage", [2, 3])
def test_tied_embeddings_stay_tied(ranks: Ranks, tmp_path: Path, stage: int) -> None:
    save_causal_lm(tmp_path / "model", tie_word_embeddings=True)
    plan = worker.plan(tmp_path, stage)
    expected, trainer = reference(plan), DeepSpeedTrainer(ranks, plan)
    for batch in FIVE[:2]:
        assert_alike(trainer.update(batch, 0.9), expected.update(batch, 0.9))
    assert_same_weights(trainer.weights(), expected)
    trainer.export(tmp_path / "exported" / "model")
    assert reference(worker.plan(tmp_path / "exported", 1)).checksum() == trainer.checksum()


def test_silent_samples_dilute_a_step_and_are_not_run(ranks: Ranks, folder: Path) -> None:
    plan = worker.plan(folder, 2, loss=replace(worker.LOSS, kl_coef=0.0))
    batch = worker.grouped()
    live = [sample for sample in batch if any(sample.advantages)]
    assert len(live) < len(batch)
    expected, trainer = reference(plan), DeepSpeedTrainer(ranks, plan)
    wanted, found = expected.update(batch, 0.9), trainer.update(batch, 0.9)
    assert found.trained_tokens == sum(sum(sample.loss_mask) for sample in live)
    assert (found.loss, found.grad_norm) == pytest.approx((wanted.loss, wanted.grad_norm), rel=1e-4)
    assert_same_weights(trainer.weights(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stage", STAGES)
def test_a_refused_step_leaves_no_trace(ranks: Ranks, folder: Path, stage: int, dtype: str) -> None:
    plan = worker.plan(folder, stage, dtype=dtype)
    trainer, other = (DeepSpeedTrainer(ranks, plan) for _ in range(2))
    for found in (trainer, other):
        found.update(FIVE[1], 0.9)
    before = trainer.checksum()
    with pytest.raises(NotFinite, match="the loss of update 1 is not finite") as caught:
        trainer.update(worker.broken(worker.grouped()), 0.9)
    assert caught.value.batch is not None
    saved = torch.load(caught.value.batch, weights_only=True)
    assert 4 in saved["indices"]
    with pytest.raises(NotFinite, match="the gradient of update 1 is not finite") as caught:
        trainer.update(worker.broken(worker.grouped(), -math.inf), 0.9)
    assert caught.value.batch is None
    assert trainer.version == 1
    assert trainer.checksum() == before
    for found in (trainer, other):
        found.update(FIVE[2], 0.9)
    assert trainer.checksum() == other.checksum() != before


@pytest.mark.parametrize("stage", STAGES)
def test_a_restored_trainer_makes_the_same_steps(
    ranks: Ranks, folder: Path, tmp_path: Path, stage: int
) -> None:
    plan = worker.plan(folder, stage, dtype="bfloat16")
    straight, fresh = (DeepSpeedTrainer(ranks, plan) for _ in range(2))
    straight.update(FIVE[0], 0.9)
    straight.save(tmp_path / "state")
    straight.update(FIVE[2], 0.9)
    wanted = straight.checksum()
    for found in (fresh, straight):
        found.restore(tmp_path / "state")
        assert found.version == 1
        found.update(FIVE[2], 0.9)
        assert found.checksum() == wanted


def test_the_state_of_another_stage_is_refused(ranks: Ranks, folder: Path, tmp_path: Path) -> None:
    DeepSpeedTrainer(ranks, worker.plan(folder, 1)).save(tmp_path / "state")
    other = DeepSpeedTrainer(ranks, worker.plan(folder, 2))
    with pytest.raises(ValueError, match=r"saved with .*'stage': 1.*this run has .*'stage': 2"):
        other.restore(tmp_path / "state")


@pytest.mark.parametrize("stage", STAGES)
def test_exported_weights_load_as_an_ordinary_model(
    ranks: Ranks, folder: Path, tmp_path: Path, stage: int
) -> None:
    trainer = DeepSpeedTrainer(ranks, worker.plan(folder, stage))
    trainer.update(FIVE[0], 0.9)
    trainer.export(tmp_path / "model")
    loaded = reference(worker.plan(tmp_path, 1))
    assert loaded.checksum() == trainer.checksum()
    found, wanted = (t.logprobs(FIVE[0], 0.9) for t in (loaded, trainer))
    assert_same_logprobs(found, wanted, tolerance=1e-5)


def test_a_step_without_any_advantage_only_counts(ranks: Ranks, folder: Path) -> None:
    loss = replace(worker.LOSS, kl_coef=0.0)
    trainer = DeepSpeedTrainer(ranks, worker.plan(folder, 2, loss=loss))
    before = trainer.checksum()
    silent = [replace(s, advantages=[0.0] * len(s.ids)) for s in FIVE[0]]
    assert trainer.update(silent, 0.9).trained_tokens == 0
    assert (trainer.version, trainer.checksum()) == (1, before)
    assert trainer.logprobs([], 0.9) == []


@pytest.mark.parametrize(
    ("stage", "changes", "message"),
    [
        (4, {}, "ZeRO stage 4"),
        (2, {"offload_parameters": True}, "only 3 offloads"),
        (2, {"dtype": "float64"}, "own copy of the weights is float32"),
    ],
)
def test_what_cannot_be_trained_is_said(
    tmp_path: Path, stage: int, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        worker.plan(tmp_path, stage, **changes)
