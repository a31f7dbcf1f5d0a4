"""What every sampler and every trainer promises, whether it writes tokens or picks candidates."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cosearch.core.protocols import NotFinite
from cosearch.engines.policies.weights import checksum, in_type
from cosearch.rollouts.policy import Policy
from tests.engines.policies import KINDS, LOSS, RULES, Kind

AGGREGATIONS = [
    *("sum_per_sequence", "token_mean", "sequence_mean", "constant_length"),
    "per_group_mean",
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture()
def folder(kind: Kind, tmp_path: Path) -> Path:
    return kind.save(tmp_path / "model")


def test_an_answer_does_not_depend_on_what_shares_its_batch(kind: Kind, folder: Path) -> None:
    requests = kind.requests(1.0)
    together = kind.open_sampler(folder)(requests)
    alone = [kind.open_sampler(folder)([request])[0] for request in requests]
    tight = kind.open_sampler(folder, batch_tokens=6)(requests)
    backwards = kind.open_sampler(folder)(requests[::-1])[::-1]
    for other in (alone, tight, backwards):
        assert [g.ids for g in other] == [g.ids for g in together]
        for left, right in zip(other, together, strict=True):
            assert left.logprobs == pytest.approx(right.logprobs, abs=1e-5)


def test_greedy_answers_do_not_depend_on_the_seed(kind: Kind, folder: Path) -> None:
    requests = kind.requests(0.0)
    moved = [replace(request, seed=request.seed + 1) for request in requests]
    one, other = (kind.open_sampler(folder)(batch) for batch in (requests, moved))
    assert [g.ids for g in one] == [g.ids for g in other]


def test_seeds_lead_to_different_answers(kind: Kind, folder: Path) -> None:
    request = kind.requests(1.0)[0]
    many = kind.open_sampler(folder)([replace(request, seed=seed) for seed in range(20)])
    assert len({generation.ids for generation in many}) > 1


@pytest.mark.parametrize("temperature", [1.0, 0.6, 0.0])
def test_log_probabilities_are_the_trainers(kind: Kind, folder: Path, temperature: float) -> None:
    trainer = kind.trainer(folder)
    requests = kind.requests(temperature)
    for request, found in zip(requests, kind.open_sampler(folder)(requests), strict=True):
        (trained,) = trainer.logprobs([kind.sample_of(request, found)], temperature)
        assert trained[-len(found.ids) :] == pytest.approx(found.logprobs, abs=1e-4)


def test_weights_arrive_in_a_narrower_type(kind: Kind, folder: Path, tmp_path: Path) -> None:
    sampler, trainer = kind.open_sampler(folder, dtype="bfloat16"), kind.trainer(folder)

    def narrower() -> str:
        return checksum(in_type(trainer.weights(), "bfloat16"))

    assert sampler.checksum() == narrower() != trainer.checksum()
    for _ in range(20):  # until the steps are larger than what bfloat16 rounds away
        trainer.update(kind.samples(), 1.0)
    assert sampler.checksum() != narrower()
    codec: Any = None  # the policy meets no text
    Policy(codec, sampler, trainer, 1.0).hand_over()
    assert sampler.checksum() == narrower()
    assert {g.weights for g in sampler(kind.requests(1.0))} == {20}


def test_weights_arrive_whole_and_are_counted(kind: Kind, folder: Path, tmp_path: Path) -> None:
    sampler, trainer = kind.open_sampler(folder), kind.trainer(folder)
    assert sampler.checksum() == trainer.checksum()
    trainer.update(kind.samples(), 1.0)
    assert sampler.checksum() != trainer.checksum()
    sampler.load_weights(trainer.weights(), trainer.version)
    assert sampler.checksum() == trainer.checksum()
    assert {g.weights for g in sampler(kind.requests(1.0))} == {1} == {sampler.weights}
    with pytest.raises(RuntimeError, match="Missing key"):
        sampler.load_weights({"model.norm.weight": torch.ones(32)}, 2)


def test_an_update_makes_good_actions_likelier(kind: Kind, folder: Path) -> None:
    trainer = kind.trainer(folder)
    (good,) = [s for s in kind.samples() if max(s.advantages) == 1.5]
    before = sum(trainer.logprobs([good], 1.0)[0])
    fresh = replace(good, old_logprobs=trainer.logprobs([good], 1.0)[0])
    trainer.update([fresh], 1.0)
    assert sum(trainer.logprobs([good], 1.0)[0]) > before


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_micro_batches_do_not_change_the_gradient(
    kind: Kind, folder: Path, aggregation: str, dtype: str, rtol: float
) -> None:
    batch = [replace(s, group=str(n % 3)) for n, s in enumerate(kind.samples())]
    runs = []
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        for tokens in (1, 50, 10**6):
            trainer = kind.trainer(
                folder,
                dtype=dtype,
                rules=replace(RULES, batch_tokens=tokens),
                loss=replace(LOSS, aggregation=aggregation),
            )
            trainer.update(batch, 1.0)
            runs.append([p.grad.clone() for p in trainer._model.parameters()])
    finally:
        torch.set_default_dtype(torch.float32)
    scale = max(float(gradient.abs().max()) for gradient in runs[0])
    assert scale > 0
    for other in runs[1:]:
        for left, right in zip(runs[0], other, strict=True):
            torch.testing.assert_close(left, right, rtol=rtol, atol=rtol * scale)


def test_a_restored_trainer_makes_the_same_steps(kind: Kind, folder: Path, tmp_path: Path) -> None:
    straight, stopped = kind.trainer(folder), kind.trainer(folder)
    for found in (straight, stopped):
        found.update(kind.samples(), 1.0)
    stopped.save(tmp_path / "state.pt")
    resumed = kind.trainer(folder)
    resumed.restore(tmp_path / "state.pt")
    assert resumed.version == 1
    for found in (straight, resumed):
        found.update(kind.samples(5), 1.0)
    assert straight.checksum() == resumed.checksum() != kind.trainer(folder).checksum()


def test_a_number_that_is_not_finite_stops_with_its_batch(
    kind: Kind, folder: Path, tmp_path: Path
) -> None:
    trainer = kind.trainer(folder, scratch=tmp_path / "scratch")
    bad = [replace(s, old_logprobs=[-math.inf] * len(s.ids)) for s in kind.samples()]
    before = trainer.checksum()
    with pytest.raises(NotFinite, match=r"loss .* batch saved: .*not_finite_0\.pt") as caught:
        trainer.update(bad, 1.0)
    assert caught.value.reason == "the loss of update 0 is not finite"
    assert caught.value.batch is not None
    saved = torch.load(caught.value.batch, weights_only=True)
    for index, row in zip(saved["indices"], saved["samples"], strict=True):
        assert list(row["ids"]) == list(bad[index].ids)
        assert row["inputs"] == bad[index].inputs
    assert trainer.checksum() == before


def test_the_kl_term_pulls_back_even_without_advantage(kind: Kind, folder: Path) -> None:
    trainer = kind.trainer(folder, loss=replace(LOSS, kl_coef=0.5))
    silent = [replace(s, advantages=[0.0] * len(s.ids)) for s in kind.samples()]
    assert trainer.update(silent, 1.0).loss == pytest.approx(0.0, abs=1e-6)
    with torch.no_grad():
        for parameter in trainer._model.parameters():
            parameter.mul_(1.1)
    assert trainer.update(silent, 1.0).loss > 1e-5


def test_exported_weights_load_as_an_ordinary_model(
    kind: Kind, folder: Path, tmp_path: Path
) -> None:
    trainer = kind.trainer(folder)
    trainer.update(kind.samples(), 1.0)
    trainer.export(tmp_path / "out")
    assert kind.trainer(tmp_path / "out").checksum() == trainer.checksum()
    assert kind.open_sampler(tmp_path / "out").checksum() == trainer.checksum()
