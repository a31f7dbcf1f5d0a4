"""The logits of a causal language model at chosen tokens, as the model itself computes them.

Families differ in what they do to the output layer's result: Granite divides it, Cohere multiplies
it, Gemma 2 caps it. So the model's own forward pass runs whole, and only the states that are asked
for reach its output layer, which is most of the memory of a step.
"""

from typing import Any

import torch

from cosearch.engines.loading import at_least_float32


def logits_at(model: Any, chosen: torch.Tensor, vocabulary: int, **inputs: Any) -> torch.Tensor:
    """Logits [chosen tokens, vocabulary] where ``chosen`` [rows, width] is true, in at least
    float32. ``inputs`` go to the model; rows of the output layer beyond ``vocabulary`` belong to no
    token and are left out."""

    def keep(_module: Any, _arguments: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[chosen][None]
        return output

    hook = model.base_model.register_forward_hook(keep)
    try:
        logits: torch.Tensor = model(**inputs, use_cache=False).logits[0]
    finally:
        hook.remove()
    return at_least_float32(logits[:, :vocabulary])
