"""What every sampler that writes promises: scripted, over transformers, and over vLLM."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from cosearch.core.protocols import Generate
from cosearch.core.types import Generation, Sample, Sampling
from cosearch.engines.policies.trainer_torch import TorchTrainer
from tests.engines.generators import HF, SCRIPTED, VLLM, Writer, continued, open_trainer, requests
from tests.micro import VOCABULARY, samples

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:vllm.*")
WITH_VLLM = pytest.param(VLLM, marks=pytest.mark.vllm, id="vllm")


@pytest.fixture(
    params=[pytest.param(SCRIPTED, id="scripted"), pytest.param(HF, id="hf"), WITH_VLLM]
)
def writer(request: pytest.FixtureRequest) -> Writer:
    found: Writer = request.param
    return found


@pytest.fixture(params=[HF, WITH_VLLM], ids=str)
def model(request: pytest.FixtureRequest) -> Iterator[tuple[Any, TorchTrainer]]:
    """A sampler with weights and a trainer over the same; the weights are put back afterwards."""
    writer: Writer = request.param
    assert writer.folder is not None
    sampler, trainer = writer.open(), open_trainer(writer.folder())
    start = {name: value.clone() for name, value in trainer.weights().items()}
    sampler.load_weights(start, 0)
    yield sampler, trainer
    sampler.load_weights(start, 0)


def trained(trainer: TorchTrainer, request: Generate, found: Generation) -> list[float]:
    """The trainer's log-probabilities of what was sampled."""
    ids = (*request.prompt_ids, *found.ids)
    mask = (0,) * len(request.prompt_ids) + (1,) * len(found.ids)
    zeros = (0.0,) * len(ids)
    (values,) = trainer.logprobs([Sample(ids, mask, zeros, zeros)], request.sampling.temperature)
    return values[len(request.prompt_ids) :]


def test_nothing_asked_is_nothing_answered(writer: Writer) -> None:
    assert list(writer.open()([])) == []


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_answer_depends_on_its_request_alone(writer: Writer, temperature: float) -> None:
    asked, sampler = requests(temperature), writer.open()
    together = sampler(asked)
    alone = [sampler([request])[0] for request in asked]
    backwards = sampler(asked[::-1])[::-1]
    for other in (alone, backwards, sampler(asked)):
        assert [g.ids for g in other] == [g.ids for g in together]
        for left, right in zip(other, together, strict=True):
            assert left.logprobs == pytest.approx(right.logprobs, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_second_turn_depends_on_its_request_alone(writer: Writer, temperature: float) -> None:
    asked, sampler = requests(temperature), writer.open()
    later = continued(asked, sampler(asked))
    together = sampler(later)
    for other in ([sampler([request])[0] for request in later], sampler(later)):
        assert [g.ids for g in other] == [g.ids for g in together]
        for left, right in zip(other, together, strict=True):
            assert left.logprobs == pytest.approx(right.logprobs, abs=1e-4)


def test_only_sampling_reads_the_seed(writer: Writer) -> None:
    sampler = writer.open()
    for temperature, several in ((0.0, False), (1.5, True)):
        (request, *_) = requests(temperature)
        found = sampler([replace(request, seed=seed) for seed in range(20)])
        assert (len({generation.ids for generation in found}) > 1) == several


def test_a_completion_ends_with_its_stop_token_or_at_its_limit(writer: Writer) -> None:
    asked = [
        Generate("agent", (7, seed % 30 + 2), Sampling(1.5, 1.0, 0, limit), seed)
        for seed in range(40)
        for limit in (1, 3, 12)
    ]
    found = writer.open()(asked)
    assert {generation.stopped for generation in found} == {True, False}
    for request, generation in zip(asked, found, strict=True):
        assert writer.eos not in generation.ids[:-1]
        assert generation.stopped == (generation.ids[-1] == writer.eos)
        assert generation.stopped or len(generation.ids) == request.sampling.max_tokens
        assert generation.sampling == request.sampling
        assert max(generation.logprobs) <= 0


def test_rows_beyond_the_vocabulary_are_never_sampled(model: Any) -> None:
    sampler, _ = model
    many = [Generate("agent", (7, 8), Sampling(2.0, 1.0, 0, 12), seed) for seed in range(64)]
    assert max(token for found in sampler(many) for token in found.ids) < VOCABULARY


@pytest.mark.parametrize("temperature", [1.0, 0.6, 0.0])
def test_log_probabilities_are_the_trainers(model: Any, temperature: float) -> None:
    sampler, trainer = model
    asked = requests(temperature)
    for request, found in zip(asked, sampler(asked), strict=True):
        assert trained(trainer, request, found) == pytest.approx(found.logprobs, abs=1e-4)


def test_frequencies_are_the_distributions(model: Any) -> None:
    sampler, trainer = model
    sampling = Sampling(1.0, 1.0, 0, 1)
    found = sampler([Generate("agent", (5, 6, 7), sampling, seed) for seed in range(2000)])
    drawn = torch.bincount(torch.tensor([g.ids[0] for g in found]), minlength=VOCABULARY) / 2000
    rows = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        logits = trainer._model(input_ids=rows).logits[0, -1, :VOCABULARY]
    assert float((drawn - logits.softmax(-1)).abs().max()) < 0.05  # four standard errors


def test_weights_arrive_whole_and_are_counted(model: Any) -> None:
    sampler, trainer = model
    trainer.update(samples(), 1.0)
    moved = sampler.load_weights(trainer.weights(), trainer.version)
    assert moved == sum(value.nbytes for value in trainer.weights().values())
    asked = requests(1.0)
    found = sampler(asked)
    assert {g.weights for g in found} == {1} == {sampler.weights}
    for request, generation in zip(asked, found, strict=True):
        assert trained(trainer, request, generation) == pytest.approx(generation.logprobs, abs=1e-4)
    with pytest.raises(RuntimeError, match="Missing key"):
        sampler.load_weights({"model.norm.weight": torch.ones(64)}, 2)


def test_nothing_computed_with_earlier_weights_is_used_again(model: Any) -> None:
    """A prompt that is long enough for a cache of prefixes to keep."""
    sampler, trainer = model
    asked = requests(0.0, prompts=[[2 + n % 37 for n in range(400)]])
    sampler(asked)
    trainer.update(samples(), 1.0)
    sampler.load_weights(trainer.weights(), 1)
    (found,) = sampler(asked)
    assert trained(trainer, asked[0], found) == pytest.approx(found.logprobs, abs=1e-4)
