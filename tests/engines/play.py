"""A whole life of a model folder: a turn and a reply, an update, a hand-over, an export."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from cosearch.core.prompts import fill_template
from cosearch.core.protocols import Generate, Segment
from cosearch.core.types import Generation, Sample, Sampling
from cosearch.engines.policies.build import (
    TrainerRules,
    build_codec,
    build_sampler,
    build_trainer,
    check_plain_loading,
)
from cosearch.engines.policies.packing import PackedHead
from cosearch.params.blocks import Agent, Train
from cosearch.rollouts.policy import Policy
from tests.settings import block, tiny

CLOSE = 1e-3
"""Nats between two engines that compute in float32."""
DOCUMENTS = (Segment("[1] Oslo\n", trusted=True), Segment("Oslo is a city", trusted=False))


@dataclass(frozen=True)
class Outcome:
    """What a folder is refused for, and what DeepSpeed's head refuses it for, if anything."""

    refused: str | None = None
    packed: str | None = None


def outcome(folder: Path, options: Mapping[str, Any], workplace: Path) -> Outcome:
    """Take a folder through everything. Raises AssertionError where something goes wrong that no
    refusal foretold."""
    try:
        codec = build_codec(folder, options)
        sampler = build_sampler(folder, codec, block(Agent, chat_options=dict(options)))
        check_plain_loading(codec)
    except ValueError as error:
        return Outcome(refused=told(error, folder))
    rules = TrainerRules(block(Train), tiny().method().loss, 1e-3, 16)
    policy = Policy(codec, sampler, build_trainer(folder, codec, rules, workplace), 1.0)
    learn_and_export(policy, workplace / "out", options)
    try:
        PackedHead(len(codec.tokenizer)).load(folder, "float32")
    except ValueError as error:
        return Outcome(packed=told(error, folder))
    return Outcome()


def told(error: ValueError, folder: Path) -> str:
    """A refusal without the folder's name. Asserts that it has one line, which names the folder."""
    words = str(error)
    assert words.startswith(f"{folder}: ") and "\n" not in words, words
    return words.removeprefix(f"{folder}: ")


def learn_and_export(policy: Policy, out: Path, options: Mapping[str, Any]) -> None:
    """A turn, a reply and a turn; an update; a hand-over; the same turns; an export."""
    assert policy.trainer is not None
    samples = two_turns(policy)
    agrees(policy, samples)
    policy.trainer.update(samples, 1.0)
    policy.hand_over()
    after = two_turns(policy)
    agrees(policy, after)
    policy.export(out)
    loads_plainly(policy, out, after[0])
    check_plain_loading(build_codec(out, options))


def two_turns(policy: Policy) -> list[Sample]:
    """Two samples of a question, a turn, a reply with documents, and a turn."""
    fills = {"question": "who wrote the book of the dead ?"}
    prompt = tuple(policy.codec.chat(fill_template("paper", "direct", fills)))
    first = turns(policy, [prompt, prompt])
    more = [
        (*prompt, *one.ids, *policy.codec.reply(DOCUMENTS, after_eos=one.stopped)) for one in first
    ]
    second = turns(policy, more)
    return [
        sample(len(prompt), one, given, two)
        for one, given, two in zip(first, more, second, strict=True)
    ]


def turns(policy: Policy, prompts: list[tuple[int, ...]]) -> list[Generation]:
    sampling = Sampling(1.0, 1.0, 0, 8)
    return list(
        policy.sampler([Generate("agent", ids, sampling, n) for n, ids in enumerate(prompts)])
    )


def sample(prompt: int, first: Generation, given: tuple[int, ...], second: Generation) -> Sample:
    """Ids, mask and log-probabilities of two turns; ``given`` is everything before the second."""
    reply = len(given) - prompt - len(first.ids)
    mask = [0] * prompt + [1] * len(first.ids) + [0] * reply + [1] * len(second.ids)
    logprobs = [0.0] * prompt + [*first.logprobs] + [0.0] * reply + [*second.logprobs]
    return Sample([*given, *second.ids], mask, logprobs, [1.0 * flag for flag in mask])


def agrees(policy: Policy, samples: list[Sample]) -> None:
    """The trainer gives the sampler's log-probabilities."""
    assert policy.trainer is not None
    for one, found in zip(samples, policy.trainer.logprobs(samples, 1.0), strict=True):
        difference = torch.tensor(found) - torch.tensor(one.old_logprobs)
        assert float(difference.abs().max()) < CLOSE


@torch.no_grad()
def loads_plainly(policy: Policy, folder: Path, one: Sample) -> None:
    """Plain transformers opens the export and gives the same log-probabilities, under the kernel of
    attention that the sampler has."""
    sampler: Any = policy.sampler
    codec: Any = policy.codec
    kernel = sampler.model.config._attn_implementation
    model: Any = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=kernel)
    logits = model(input_ids=torch.tensor([list(one.ids)])).logits[0, :-1]
    logprobs = logits[:, : len(codec.tokenizer)].log_softmax(-1)
    own = logprobs.gather(1, torch.tensor(one.ids)[1:, None])[:, 0]
    trained = torch.tensor(one.loss_mask)[1:].bool()
    gap = (own[trained] - torch.tensor(one.old_logprobs)[1:][trained]).abs().max()
    assert float(gap) < CLOSE
