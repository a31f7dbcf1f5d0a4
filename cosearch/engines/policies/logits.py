"""Log-probabilities of a causal language model at chosen tokens, from logits as the model itself
computes them.

Families differ in what they do to the output layer's result: Granite divides it, Cohere multiplies
it, Gemma 2 caps it. So states pass through the rest of the model's own forward pass. Logits are
most of the memory of a step. They exist for one part of the tokens at a time: the backward pass
computes each part's again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from cosearch.engines.loading import at_least_float32

Scores = tuple[torch.Tensor, torch.Tensor]
"""Log-probabilities and entropies, [tokens] each."""


def scores_at(
    model: Any,
    chosen: torch.Tensor,
    tokens: torch.Tensor,
    *,
    vocabulary: int,
    temperature: float,
    parts: int,
    **inputs: Any,
) -> Scores:
    """Log-probabilities of ``tokens`` [chosen] and the entropies where ``chosen`` [rows, width] is
    true. The chosen places are cut into ``parts``, whose logits [part, vocabulary] exist one after
    another. ``inputs`` go to the model; rows of the output layer beyond ``vocabulary`` belong to no
    token and are left out."""
    output = model.base_model(**inputs, use_cache=False)
    states = output.last_hidden_state[chosen]
    output.last_hidden_state = None

    def scores(part: torch.Tensor, wanted: torch.Tensor) -> Scores:
        with _given(model.base_model, replace(output, last_hidden_state=part[None])):
            logits = model(inputs_embeds=part[None], use_cache=False).logits[0, :, :vocabulary]
        return token_logprobs(at_least_float32(logits), wanted, temperature)

    if parts == 1:
        return scores(states, tokens)
    pairs = zip(states.tensor_split(parts), tokens.tensor_split(parts), strict=True)
    found = [checkpoint(scores, *pair, use_reentrant=False) for pair in pairs]
    logprobs, entropies = zip(*found, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def token_logprobs(logits: torch.Tensor, tokens: torch.Tensor, temperature: float) -> Scores:
    """Log-probabilities of ``tokens`` [tokens] under ``logits`` [tokens, vocabulary], and the
    entropies there."""
    logprobs = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
    taken = logprobs.gather(1, tokens[:, None])[:, 0]
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(dim=-1)
    return taken, entropy


@contextmanager
def _given(base: Any, output: Any) -> Iterator[None]:
    """Inside, ``base`` gives ``output`` in place of a forward pass."""
    own = vars(base).get("forward")
    base.forward = lambda *_, **__: output
    try:
        yield
    finally:
        del base.forward
        if own is not None:
            base.forward = own
