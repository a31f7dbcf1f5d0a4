"""Old log-probabilities, updates and the hand-over of weights."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from cosearch.engines.policies.generator_hf import HfGenerator
from cosearch.engines.policies.heads import CausalHead
from cosearch.engines.policies.loss import LossRules
from cosearch.engines.policies.step import OptimizerRules
from cosearch.engines.policies.trainer_torch import TorchTrainer
from cosearch.engines.policies.weights import checksum
from cosearch.rollouts.policy import Policy, give_way, serving
from cosearch.train.learning import learn, prepare
from tests.micro import EOS, VOCABULARY, samples, save_causal_lm


class WordlessCodec:
    """The policy under test never meets a text."""

    eos_ids = frozenset({EOS})


class SharingSampler(HfGenerator):
    """A sampler that counts what it was asked besides its work."""

    slept = closed = 0

    def sleep(self, *, discard: bool) -> None:
        assert discard  # its policy learns
        self.slept += 1

    def close(self) -> None:
        self.closed += 1


def policy(folder: Path, sampler: type[HfGenerator] = HfGenerator) -> Policy:
    trainer = TorchTrainer(
        folder,
        head=CausalHead(VOCABULARY),
        dtype="float32",
        rules=OptimizerRules(1e-3, (0.9, 0.95), 0.0, 1.0, 0, 4096, 4096),
        loss=LossRules(0.2, "sum_per_sequence", None, 0.0, 16),
        scratch=folder,
    )
    generator = sampler(
        folder,
        vocabulary=VOCABULARY,
        eos_ids=frozenset({EOS}),
        batch_tokens=4096,
        dtype="float32",
    )
    return Policy(WordlessCodec(), generator, trainer, 1.0)  # type: ignore[arg-type]


@pytest.fixture()
def folder(tmp_path: Path) -> Path:
    return save_causal_lm(tmp_path / "model")


def test_old_log_probabilities_are_the_trainers_and_the_gap_is_told(folder: Path) -> None:
    found = policy(folder)
    assert found.trainer is not None
    batch = samples()
    prepared = prepare(found, batch, None)
    expected = found.trainer.logprobs(batch, 1.0)
    gaps = []
    for sample, old, measured, wanted in zip(
        batch, prepared.samples, prepared.measured, expected, strict=True
    ):
        if not any(sample.advantages):
            assert measured is None and old is sample
            continue
        assert measured == old.old_logprobs == pytest.approx(wanted, abs=1e-5)
        flags = zip(measured, sample.old_logprobs, sample.loss_mask, strict=True)
        gaps += [abs(new - sampled) for new, sampled, flag in flags if flag]
    assert prepared.gap_max == max(gaps) > prepared.gap_mean == pytest.approx(sum(gaps) / len(gaps))


def test_importance_correction_is_truncated(folder: Path) -> None:
    found = policy(folder)
    plain, capped = prepare(found, samples(), None), prepare(found, samples(), 1.5)
    ratios = set()
    for sample, one, other in zip(samples(), plain.samples, capped.samples, strict=True):
        for place, flag in enumerate(sample.loss_mask):
            if flag and sample.advantages[place]:
                ratio = math.exp(one.old_logprobs[place] - sample.old_logprobs[place])
                ratios.add(ratio > 1.5)
                wanted = sample.advantages[place] * min(1.5, ratio)
                assert other.advantages[place] == pytest.approx(wanted)
    assert ratios == {True, False}


@pytest.mark.parametrize(("per_update", "updates"), [(3, 3), (7, 1), (100, 1), (1, 7)])
def test_one_pass_takes_as_many_updates_as_it_must(
    folder: Path, per_update: int, updates: int
) -> None:
    found = policy(folder)
    assert len(learn(found, samples(), per_update=per_update, seed=1)) == updates
    assert found.sampler.weights == 0
    found.hand_over()
    assert found.sampler.weights == updates


def test_the_order_of_a_pass_follows_its_seed(folder: Path) -> None:
    ends = []
    for seed in (1, 1, 2):
        found = policy(folder)
        learn(found, samples(), per_update=2, seed=seed)
        found.hand_over()
        ends.append(checksum(found.sampler.model.state_dict()))
    assert ends[0] == ends[1] != ends[2]


def test_nothing_to_learn_changes_nothing(folder: Path) -> None:
    found = policy(folder)
    assert found.trainer is not None
    before = checksum(found.trainer.weights())
    assert learn(found, [], per_update=2, seed=1) == []
    assert checksum(found.trainer.weights()) == before


def test_stale_weights_are_caught(folder: Path) -> None:
    found = policy(folder)
    learn(found, samples(), per_update=2, seed=1)
    found.sampler.model.load_state_dict = lambda weights, strict: None  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="holds other weights than it was given"):
        found.hand_over()


def test_a_frozen_policy_neither_hands_over_nor_exports(folder: Path, tmp_path: Path) -> None:
    frozen = replace(policy(folder), trainer=None)
    with pytest.raises(RuntimeError, match="frozen"):
        frozen.hand_over()
    with pytest.raises(RuntimeError, match="frozen"):
        frozen.export(tmp_path / "out")


def test_a_shared_sampler_gives_way_once_and_is_closed_once(folder: Path) -> None:
    shared = policy(folder, SharingSampler)
    policies = {"agent": shared, "ranker": shared}
    sampler = shared.sampler
    assert isinstance(sampler, SharingSampler)
    with serving(policies):
        give_way(policies)
        assert (sampler.slept, sampler.closed) == (1, 0)
    assert (sampler.slept, sampler.closed) == (1, 1)


def test_samplers_are_closed_after_a_failure_too(folder: Path) -> None:
    found = policy(folder, SharingSampler)
    with pytest.raises(ValueError, match="broken"), serving({"agent": found}):
        raise ValueError("broken")
    assert isinstance(found.sampler, SharingSampler) and found.sampler.closed == 1
