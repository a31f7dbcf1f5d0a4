"""The sampler: seeded per request, independent of its batch, honest about its probabilities."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import MptConfig, MptForCausalLM

from cosearch.core.protocols import Generate
from cosearch.core.types import Generation, Sampling
from cosearch.engines.policies.build import build_sampler
from cosearch.engines.policies.generator_hf import HfGenerator
from cosearch.engines.policies.weights import checksum
from cosearch.params.blocks import Agent, Ranker
from tests.engines.generators import continued
from tests.micro import EOS, VOCABULARY, save_causal_lm
from tests.settings import block

PROMPTS = [(5, 6, 7), (5, 6, 7), (9, 3, 11, 30, 2, 8), (20,), (4, 4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_causal_lm(tmp_path_factory.mktemp("model"))


def sampler(folder: Path, *, batch_tokens: int = 4096) -> HfGenerator:
    return HfGenerator(
        folder,
        vocabulary=VOCABULARY,
        eos_ids=frozenset({EOS}),
        batch_tokens=batch_tokens,
        dtype="float32",
    )


def requests(temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0) -> list[Generate]:
    sampling = Sampling(temperature, top_p, top_k, 12)
    return [
        Generate("agent", prompt, sampling, seed) for seed, prompt in enumerate(PROMPTS, start=100)
    ]


def test_rows_beyond_the_vocabulary_are_never_sampled(folder: Path) -> None:
    sampling = Sampling(5.0, 1.0, 0, 12)
    many = [Generate("agent", (7, 8), sampling, seed) for seed in range(64)]
    assert max(token for found in sampler(folder)(many) for token in found.ids) < VOCABULARY


def test_a_completion_ends_at_its_stop_token_or_at_its_limit(folder: Path) -> None:
    limits = [1, 3, 12]
    many = [
        Generate("agent", (7, seed % 30 + 2), Sampling(1.5, 1.0, 0, limit), seed)
        for seed in range(40)
        for limit in limits
    ]
    found = sampler(folder)(many)
    assert {generation.stopped for generation in found} == {True, False}
    for request, generation in zip(many, found, strict=True):
        assert EOS not in generation.ids[:-1]
        assert generation.stopped == (generation.ids[-1] == EOS)
        assert generation.stopped or len(generation.ids) == request.sampling.max_tokens


@pytest.mark.parametrize("restriction", [{"top_k": 1}, {"top_p": 1e-9}])
def test_the_tightest_restriction_is_greedy(folder: Path, restriction: dict[str, float]) -> None:
    greedy = sampler(folder)(requests(temperature=0.0))
    assert [g.ids for g in sampler(folder)(requests(**restriction))] == [g.ids for g in greedy]  # type: ignore[arg-type]


def test_new_weights_change_what_is_sampled_and_are_counted(folder: Path, tmp_path: Path) -> None:
    generator, other = sampler(folder), sampler(save_causal_lm(tmp_path, seed=1))
    assert generator.checksum() != other.checksum()
    weights = {name: value.clone() for name, value in other.model.state_dict().items()}
    generator.load_weights(weights, 3)
    assert generator.checksum() == other.checksum() == checksum(weights)
    found = generator(requests())
    assert [g.ids for g in found] == [g.ids for g in other(requests())]
    assert {g.weights for g in found} == {3}


def second_turn(generator: HfGenerator, asked: list[Generate]) -> tuple[list[Generation], int]:
    """The answers of a second turn, and the tokens of its longest row in the first forward pass."""
    later = continued(asked, generator(asked))
    widths: list[int] = []
    hook = generator.model.register_forward_pre_hook(
        lambda _model, _args, given: widths.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    found = generator(later)
    hook.remove()
    return found, widths[0]


def test_a_second_turn_runs_its_new_tokens_alone(folder: Path) -> None:
    generator, asked = sampler(folder), requests()
    found, width = second_turn(generator, asked)
    assert width == 1 + 4  # the last token of the turn before, and the longest reply
    later = continued(asked, generator(asked))
    generator.sleep(discard=False)
    for one, whole in zip(found, generator(later), strict=True):
        assert one.ids == whole.ids
        assert one.logprobs == pytest.approx(whole.logprobs, abs=1e-4)


@pytest.mark.parametrize("tokens", [7, 30])
def test_turns_are_kept_up_to_the_bound_of_a_batch(folder: Path, tokens: int) -> None:
    """Of 30 tokens in five padded prompts, the bound of 7 keeps those of the shortest ones."""
    whole, _ = second_turn(sampler(folder), requests())
    found, _ = second_turn(sampler(folder, batch_tokens=tokens), requests())
    assert [g.ids for g in found] == [g.ids for g in whole]
    for one, other in zip(found, whole, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_a_model_that_forgets_columns_runs_the_whole_prompt(tmp_path: Path) -> None:
    generator = sampler(
        save_causal_lm(tmp_path, use_sliding_window=True, sliding_window=4, max_window_layers=1)
    )
    asked = requests()
    found, width = second_turn(generator, asked)
    later = continued(asked, generator(asked))
    assert width == max(len(request.prompt_ids) for request in later)
    alone = [generator([request])[0] for request in later]
    assert [g.ids for g in found] == [g.ids for g in alone]


def test_a_model_that_counts_columns_runs_the_whole_prompt(tmp_path: Path) -> None:
    """MPT weighs a token by its column, so nothing may lie between a turn and what follows it."""
    torch.manual_seed(0)
    config = MptConfig(d_model=32, n_heads=2, n_layers=2, vocab_size=VOCABULARY, max_seq_len=128)
    config.initializer_range = 0.4
    MptForCausalLM(config).save_pretrained(tmp_path)
    _, width = second_turn(sampler(tmp_path), requests())
    assert width > max(map(len, PROMPTS))


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("tpu", "device 'tpu' is neither cpu nor cuda"),
        pytest.param(
            "cuda",
            "torch sees no GPU here; set its device to cpu",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="it sees one"),
        ),
    ],
)
def test_a_device_that_is_not_there_is_refused(folder: Path, device: str, message: str) -> None:
    codec = SimpleNamespace(tokenizer=range(VOCABULARY), eos_ids=frozenset({EOS}))
    short = {"max_prompt_tokens": 64, "max_response_tokens": 64}
    asked = {"causal": block(Agent, device=device, **short), "scorer": block(Ranker, device=device)}
    for head, role in asked.items():
        with pytest.raises(ValueError, match=message):
            build_sampler(folder, codec, role, head)


def test_sequences_longer_than_the_models_positions_are_refused(folder: Path) -> None:
    codec = SimpleNamespace(tokenizer=range(VOCABULARY), eos_ids=frozenset({EOS}))
    with pytest.raises(ValueError, match=r"128 positions, and max_prompt_tokens .* allow 129"):
        build_sampler(folder, codec, block(Agent, max_prompt_tokens=65, max_response_tokens=64))
