"""Micro models and samples: real, random, and small enough for every test to build its own."""

from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification

from cosearch.core.types import Sample

VOCABULARY = 40
PADDED_VOCABULARY = 48
EOS = 1


def save_causal_lm(
    folder: Path, *, seed: int = 0, dtype: torch.dtype = torch.float32, **changes: object
) -> Path:
    """A random two-layer Qwen2 whose output layer has more rows than there are tokens."""
    torch.manual_seed(seed)
    settings = {
        "vocab_size": PADDED_VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
        "initializer_range": 0.4,
        "pad_token_id": 0,
        "eos_token_id": EOS,
    }
    config = Qwen2Config(**settings | changes)  # type: ignore[arg-type]
    Qwen2ForCausalLM(config).to(dtype).save_pretrained(folder)
    return folder


def save_scorer(
    folder: Path, *, seed: int = 0, vocabulary: int = PADDED_VOCABULARY, **changes: object
) -> Path:
    """A random two-layer Qwen2 that gives a sequence one score, read at its last token."""
    torch.manual_seed(seed)
    settings = {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 1024,
        "initializer_range": 0.4,
        "pad_token_id": 0,
        "num_labels": 1,
    }
    config = Qwen2Config(**settings | changes)  # type: ignore[arg-type]
    Qwen2ForSequenceClassification(config).save_pretrained(folder)
    return folder


def pairs(count: int, *, start: int = 0) -> tuple[tuple[int, ...], ...]:
    """Token ids of pairs of different lengths."""
    return tuple(
        tuple(
            2 + (number * 11 + place * 7) % (VOCABULARY - 2) for place in range(4 + number * 3 % 8)
        )
        for number in range(start, start + count)
    )


def pick_samples(count: int = 7) -> list[Sample]:
    """Picks from lists of different lengths; one of them has no advantage."""
    found = []
    for number in range(count):
        inputs = pairs(2 + number, start=number)
        picks = [(number + 2 * place) % len(inputs) for place in range(min(3, len(inputs)))]
        picks = list(dict.fromkeys(picks))
        advantage = (number - 3) / 2
        found.append(
            Sample(
                picks,
                [1] * len(picks),
                [-0.8 - place / 10 for place in range(len(picks))],
                [advantage] * len(picks),
                inputs,
            )
        )
    return found


def samples(count: int = 7) -> list[Sample]:
    """Samples of different lengths, masks and advantages; one of them has no advantage."""
    found = []
    for number in range(count):
        length = 6 + 3 * number
        ids = [2 + (number * 7 + place * 5) % (VOCABULARY - 2) for place in range(length)]
        mask = [int(place > 2 and place % 4 != 0) for place in range(length)]
        advantage = (number - 3) / 2
        found.append(
            Sample(
                ids,
                mask,
                [-2.0 - place / 10 if flag else 0.0 for place, flag in enumerate(mask)],
                [advantage * flag for flag in mask],
            )
        )
    return found
