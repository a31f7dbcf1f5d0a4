"""The trainer: the loss of Eq. 3, one denominator, exact state."""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cosearch.core.types import Sample
from cosearch.engines.policies.heads import Batch, CausalHead
from cosearch.engines.policies.loss import (
    LossRules,
    kl_to_reference,
    sequence_weights,
    token_losses,
)
from cosearch.engines.policies.step import OptimizerRules
from cosearch.engines.policies.trainer_torch import TorchTrainer
from tests.micro import VOCABULARY, samples, save_causal_lm

LOSS = LossRules(0.2, "sum_per_sequence", None, 0.0, 16)
RULES = OptimizerRules(1e-3, (0.9, 0.95), 0.0, 1e9, 0, 4096, 4096)
AGGREGATIONS = ["sum_per_sequence", "token_mean", "sequence_mean", "constant_length"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_causal_lm(tmp_path_factory.mktemp("model"))


def trainer(
    folder: Path,
    *,
    rules: OptimizerRules = RULES,
    loss: LossRules = LOSS,
    dtype: str = "float32",
    scratch: Path = Path("unused"),
) -> TorchTrainer:
    return TorchTrainer(
        folder, head=CausalHead(VOCABULARY), dtype=dtype, rules=rules, loss=loss, scratch=scratch
    )


def gradients(found: TorchTrainer, batch: Sequence[Sample]) -> list[torch.Tensor]:
    found.update(batch, 1.0)
    return [parameter.grad.clone() for parameter in found._model.parameters()]


def textbook_loss(found: TorchTrainer, batch: Sequence[Sample], loss: LossRules) -> torch.Tensor:
    """Eq. 3, sample by sample and token by token, without padding."""
    sequences = []
    for sample in batch:
        logits = found._model(input_ids=torch.tensor([list(sample.ids)])).logits[0, :, :VOCABULARY]
        logprobs = torch.log_softmax(logits.float(), dim=-1)
        terms = []
        for place in range(1, len(sample.ids)):
            if sample.loss_mask[place]:
                new = logprobs[place - 1, sample.ids[place]]
                ratio = torch.exp(new - sample.old_logprobs[place])
                clipped = ratio.clamp(1 - loss.clip_eps, 1 + loss.clip_eps)
                advantage = sample.advantages[place]
                terms.append(-torch.minimum(ratio * advantage, clipped * advantage))
        sequences.append(torch.stack(terms))
    match loss.aggregation:
        case "sum_per_sequence":
            return torch.stack([terms.sum() for terms in sequences]).mean()
        case "token_mean":
            return torch.cat(sequences).mean()
        case "sequence_mean":
            return torch.stack([terms.mean() for terms in sequences]).mean()
        case _:
            return torch.stack([terms.sum() / loss.max_tokens for terms in sequences]).mean()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_the_gradient_is_that_of_the_textbook_loss(folder: Path, aggregation: str) -> None:
    loss = replace(LOSS, aggregation=aggregation)
    reference = trainer(folder, loss=loss)
    expected = textbook_loss(reference, samples(), loss)
    wanted = torch.autograd.grad(expected, list(reference._model.parameters()))
    found = trainer(folder, loss=loss)
    stats = found.update(samples(), 1.0)
    assert stats.loss == pytest.approx(float(expected.detach()), rel=1e-5, abs=1e-6)
    for parameter, gradient in zip(found._model.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)


def test_samples_without_advantage_only_dilute(folder: Path) -> None:
    batch = [s for s in samples() if any(s.advantages)]
    silent = [replace(s, advantages=[0.0] * len(s.ids)) for s in batch]
    alone = gradients(trainer(folder), batch)
    diluted = gradients(trainer(folder), [*batch, *silent])
    for left, right in zip(alone, diluted, strict=True):
        torch.testing.assert_close(left, 2 * right, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("batch_tokens", [1, 60, 4096])
def test_samples_without_advantage_do_not_run(
    folder: Path, batch_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them lies between two that do run, so that no batch is without one that does."""
    ran: list[Sample] = []
    found = trainer(folder, rules=replace(RULES, batch_tokens=batch_tokens))
    call = CausalHead.__call__

    def watched(self: CausalHead, model: Any, batch: Batch, temperature: float) -> Any:
        ran.extend(batch.samples)
        return call(self, model, batch, temperature)

    monkeypatch.setattr(CausalHead, "__call__", watched)
    mixed = [replace(s, advantages=[0.0] * len(s.ids)) if n % 2 else s for n, s in numbered()]
    found.update(mixed, 1.0)
    live = [sample for sample in mixed if any(sample.advantages)]
    assert sorted(ran, key=lambda s: len(s.ids)) == live


@pytest.mark.parametrize("kl_coef", [0.0, 0.01])
def test_statistics_depend_neither_on_batches_nor_on_samples_without_advantage(
    folder: Path, kl_coef: float
) -> None:
    """Guards read these numbers, so a run must not stop for the size of its batches."""
    loss = replace(LOSS, kl_coef=kl_coef)
    mixed = [replace(s, advantages=[0.0] * len(s.ids)) if n % 2 else s for n, s in numbered()]
    alone = [sample for sample in mixed if any(sample.advantages)]
    found = [
        asdict(
            trainer(folder, rules=replace(RULES, batch_tokens=size), loss=loss).update(some, 1.0)
        )
        for size, some in ((1, mixed), (90, mixed), (4096, mixed), (90, alone))
    ]
    assert found[0]["trained_tokens"] == sum(sum(sample.loss_mask) for sample in alone)
    for name in ("entropy", "clip_share", "old_kl", "max_ratio", "trained_tokens"):
        values = [stats[name] for stats in found]
        assert values == pytest.approx([values[0]] * 4, rel=1e-5), name


def numbered() -> list[tuple[int, Sample]]:
    """Samples that all have an advantage, with their numbers."""
    return list(enumerate(s for s in samples(9) if any(s.advantages)))


def test_tokens_outside_the_mask_get_no_weight(folder: Path) -> None:
    batch = samples()
    moved = [
        replace(
            s,
            old_logprobs=[
                old if flag else -9.0 for old, flag in zip(s.old_logprobs, s.loss_mask, strict=True)
            ],
        )
        for s in batch
    ]
    for left, right in zip(
        gradients(trainer(folder), batch), gradients(trainer(folder), moved), strict=True
    ):
        assert torch.equal(left, right)


def test_clipping_is_pessimistic_and_the_dual_clip_bounds_the_rest() -> None:
    ratio = torch.tensor([2.0, 2.0, 0.5, 0.5, 10.0])
    advantage = torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0])
    zeros = torch.zeros(5)
    plain = token_losses(ratio.log(), zeros, advantage, LOSS)
    assert plain.tolist() == pytest.approx([-1.2, 2.0, -0.5, 0.8, 10.0])
    dual = token_losses(ratio.log(), zeros, advantage, replace(LOSS, dual_clip=3.0))
    assert dual.tolist() == pytest.approx([-1.2, 2.0, -0.5, 0.8, 3.0])


def test_k3_is_zero_at_equality_and_positive_elsewhere() -> None:
    same = torch.tensor([-1.0, -3.0])
    assert kl_to_reference(same, same).tolist() == [0.0, 0.0]
    other = kl_to_reference(torch.tensor([-1.0]), torch.tensor([-2.0]))
    assert float(other) == pytest.approx(math.exp(-1) - (-1) - 1)


def test_an_unknown_aggregation_is_named() -> None:
    with pytest.raises(ValueError, match="'median'"):
        sequence_weights(samples(), replace(LOSS, aggregation="median"))


def test_warm_up_raises_the_rate_linearly(folder: Path) -> None:
    found = trainer(folder, rules=replace(RULES, warmup_updates=4))
    rates = []
    for _ in range(5):
        found.update(samples(), 1.0)
        rates.append(found._optimizer.param_groups[0]["lr"] / RULES.lr)
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])


def test_a_mean_per_group_weighs_groups_and_not_their_members(folder: Path) -> None:
    batch = samples(3)
    loss = replace(LOSS, aggregation="per_group_mean")
    grouped = [replace(s, group=g) for s, g in zip(batch, "aab", strict=True)]
    assert sequence_weights(grouped, loss) == [1 / 4, 1 / 4, 1 / 2]
    whole = sequence_weights(batch, loss)
    assert whole == sequence_weights(batch, LOSS) == [1 / 3] * 3
    doubled = [*grouped, grouped[2]]
    for left, right in zip(
        gradients(trainer(folder, loss=loss), grouped),
        gradients(trainer(folder, loss=loss), doubled),
        strict=True,
    ):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-6)
