"""Attention within the sequences of a packed row, under a name that transformers knows.

No mask is built. On a GPU one kernel reads the borders of the sequences; where it cannot run, each
sequence has a call of its own. So memory grows with the longest sequence, not with the whole row.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

PACKED = "within_packed_sequences"
HALVES = (torch.float16, torch.bfloat16)
"""The types of torch's kernel for sequences of several lengths."""
WIDEST = 256
"""The largest size of a head in that kernel."""


def borders(lengths: list[int]) -> dict[str, Any]:
    """What the attention of every layer must know of a row of sequences with these ``lengths``, by
    the names that flash attention has in transformers."""
    ends = torch.tensor([0, *lengths]).cumsum(0).int()
    longest = max(lengths)
    return {
        "cu_seq_lens_q": ends,
        "cu_seq_lens_k": ends,
        "max_length_q": longest,
        "max_length_k": longest,
    }


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention [1, row, heads, size] of a packed row; ``query`` is [1, heads, row, size].
    ``options`` are those of transformers, and ``borders`` among them. A family that leaves them
    out, or computes with more than window, scale and cap, fails the look at its numbers.
    """
    if _has_kernel(query, value, options):
        return _by_kernel(query, key, value, options), None
    ends = [0, query.shape[2]]
    if (told := options.get("cu_seq_lens_q")) is not None:
        ends = told.tolist()
    parts = [
        _alone(module, *(x[:, :, a:b] for x in (query, key, value)), options=options)
        for a, b in pairwise(ends)
    ]
    return torch.cat(parts, dim=1), None


def _has_kernel(query: torch.Tensor, value: torch.Tensor, options: dict[str, Any]) -> bool:
    sizes = query.shape[-1], value.shape[-1]
    fits = sizes[0] == sizes[1] <= WIDEST and query.dtype in HALVES
    fits = fits and "cu_seq_lens_q" in options and not options.get("softcap")
    return fits and query.device.type != "cpu"


def _by_kernel(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, options: dict[str, Any]
) -> torch.Tensor:
    window, (queries, keys, values) = options.get("sliding_window") or 0, _rows(query, key, value)
    found = varlen_attn(
        queries,
        keys,
        values,
        options["cu_seq_lens_q"],
        options["cu_seq_lens_k"],
        options["max_length_q"],
        options["max_length_k"],
        scale=options.get("scaling"),
        window_size=(window - 1, 0),  # -1: all tokens before
        enable_gqa=query.shape[1] != key.shape[1],
    )
    assert isinstance(found, torch.Tensor)
    return found[None]


def _rows(*parts: torch.Tensor) -> Iterator[torch.Tensor]:
    """Of [1, heads, row, size]: [row, heads, size]."""
    return (part[0].transpose(0, 1) for part in parts)


def _alone(module: Any, *parts: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    """The attention of one sequence, [1, its length, heads, size]."""
    query, key, value = parts
    length, window = query.shape[2], options.get("sliding_window")
    mask = None
    if window is not None and window < length:
        near = torch.ones(length, length, dtype=torch.bool, device=query.device)
        mask = near.tril().triu(1 - window)[None, None]
    scale = options.get("scaling")
    if options.get("softcap"):
        return _capped(query, key, value, mask, scale, options["softcap"])
    found: torch.Tensor = sdpa_attention_forward(
        module, query, key, value, mask, scaling=scale, is_causal=mask is None
    )[0]
    return found


def _capped(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float | None,
    cap: float,
) -> torch.Tensor:
    """Attention whose scores are capped, which none of torch's kernels does."""
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    scores = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if scale is None else scale)
    scores = torch.tanh(scores / cap) * cap
    if mask is None:
        mask = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).tril()
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1, dtype=torch.float32)
    return (weights.to(value.dtype) @ value).transpose(1, 2)


AttentionInterface.register(PACKED, packed_attention)
