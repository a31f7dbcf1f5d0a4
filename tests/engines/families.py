"""Model families with two random layers each, as folders of their own kind of tokenizer and chat
template."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedTokenizerFast,
)

from tests.engines import tokenizers

CHATS = Path(__file__).parent / "chats"
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 1024,
    "initializer_range": 0.3,
    "tie_word_embeddings": False,
}
GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 16}


@dataclass(frozen=True)
class Family:
    """A family: ``kind`` is its type in transformers, ``chat`` its template's file, ``specials``
    its special tokens with those of padding, begin and end first."""

    name: str
    kind: str
    tokenizer: Callable[[Sequence[str]], Tokenizer]
    chat: str | None
    specials: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    more_ends: tuple[str, ...] = ()
    """Ends that the generation config names beside that of the tokenizer."""
    spoil: Callable[[Path], None] = lambda _folder: None

    def __str__(self) -> str:
        return self.name


def save(family: Family, folder: Path) -> None:
    """Write the family's folder."""
    pad, bos, eos = family.specials[:3]
    build: Any = PreTrainedTokenizerFast
    fast = build(
        tokenizer_object=family.tokenizer(list(dict.fromkeys(family.specials))),
        pad_token=pad,
        bos_token=bos,
        eos_token=eos,
    )
    if family.chat:
        fast.chat_template = (CHATS / f"{family.chat}.jinja").read_text("utf-8").rstrip("\n")
    fast.save_pretrained(folder)
    number = fast.convert_tokens_to_ids
    ends = [number(token) for token in (eos, *family.more_ends)]
    tokens = {"pad_token_id": number(pad), "bos_token_id": number(bos), "eos_token_id": ends[0]}
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        family.kind, **{**SIZES, **tokens, "vocab_size": len(fast) + 5, **family.changes}
    )
    loader: Any = AutoModelForCausalLM
    model = loader.from_config(config)
    model.generation_config.eos_token_id = ends
    model.save_pretrained(folder)
    family.spoil(folder)


def lose_a_layer(folder: Path) -> None:
    """Let config.json tell of a layer that the weights lack."""
    told = json.loads((folder / "config.json").read_text("utf-8"))
    told |= {"num_hidden_layers": 3, "layer_types": None}
    (folder / "config.json").write_text(json.dumps(told), "utf-8")


CHATML = ("<|endoftext|>", "<|endoftext|>", "<|im_end|>", "<|im_start|>")
DATE = {"strftime_now": "26 July 2024"}
BYTES, PIECES = tokenizers.byte_level, tokenizers.metaspace
SENTENCE = ("<pad>", "<s>", "</s>")
LLAMA3 = ("<|end_of_text|>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>")
FAMILIES = (
    Family("Qwen2", "qwen2", BYTES, "qwen2", CHATML, more_ends=("<|endoftext|>",)),
    Family("Qwen3", "qwen3", BYTES, "qwen3", CHATML, {"enable_thinking": False}, {"head_dim": 16}),
    Family("Qwen3, as it is", "qwen3", BYTES, "qwen3", CHATML, changes={"head_dim": 16}),
    Family(
        "Qwen2 that always thinks (R1 distilled)",
        "qwen2",
        BYTES,
        "thinks",
        ("<|pad|>", "<|begin|>", "<|end|>", "<|User|>", "<|Assistant|>"),
    ),
    Family(
        "Llama 3",
        "llama",
        tokenizers.byte_level_with_bos,
        "llama3",
        ("<|begin_of_text|>", "<|begin_of_text|>", "<|eot_id|>", *LLAMA3, "<|end_header_id|>"),
        {"date_string": "26 Jul 2024"},
        more_ends=("<|end_of_text|>",),
    ),
    Family("Llama 2", "llama", tokenizers.prepended, "llama2", SENTENCE),
    Family("Mistral", "mistral", PIECES, "mistral", SENTENCE, changes={"sliding_window": 16}),
    Family("Mistral, unigram tokenizer", "mistral", tokenizers.unigram, "mistral", SENTENCE),
    Family(
        "Gemma 2",
        "gemma2",
        tokenizers.no_blank,
        "gemma",
        ("<pad>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
        changes={**GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    ),
    Family(
        "Gemma 3 (text)",
        "gemma3_text",
        tokenizers.no_blank,
        "gemma",
        ("<pad>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
        changes=GEMMA,
    ),
    Family(
        "Phi-3",
        "phi3",
        tokenizers.prepended,
        "phi3",
        ("<pad>", "<s>", "<|endoftext|>", "<|user|>", "<|assistant|>", "<|end|>"),
    ),
    Family(
        "Granite",
        "granite",
        BYTES,
        "granite",
        ("<|pad|>", "<|end_of_text|>", "<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>"),
        DATE,
        {"logits_scaling": 8.0, "embedding_multiplier": 12.0, "residual_multiplier": 0.3},
    ),
    Family(
        "Cohere",
        "cohere",
        BYTES,
        "cohere",
        (
            *("<PAD>", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>"),
            *("<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>"),
        ),
        changes={"logit_scale": 0.25},
    ),
    Family(
        "OLMo 2",
        "olmo2",
        BYTES,
        "olmo2",
        ("<|pad|>", "<|endoftext|>", "<|endoftext|>"),
    ),
    Family("SmolLM3", "smollm3", BYTES, "smollm3", CHATML, {**DATE, "enable_thinking": False}),
    Family("SmolLM3, as it is", "smollm3", BYTES, "smollm3", CHATML),
    Family("GPT-NeoX without a chat template", "gpt_neox", BYTES, None, CHATML),
    Family("GPT-NeoX", "gpt_neox", BYTES, "qwen2", CHATML),
    Family("GPT-2 with ChatML", "gpt2", BYTES, "qwen2", CHATML),
    Family(
        "GLM-4",
        "glm4",
        BYTES,
        "glm4",
        ("<|endoftext|>", "[gMASK]", "<|user|>", "<sop>", "<|assistant|>"),
        changes={"head_dim": 16},
    ),
    Family("Mixtral", "mixtral", PIECES, "mistral", SENTENCE, changes={"num_local_experts": 4}),
    Family("BLOOM with ChatML", "bloom", BYTES, "qwen2", CHATML),
    Family("Mamba with ChatML", "mamba", BYTES, "qwen2", CHATML),
    Family(
        "a template with channels (GPT-OSS)",
        "llama",
        BYTES,
        "channels",
        ("<|endoftext|>", "<|start|>", "<|return|>", "<|end|>", "<|message|>", "<|channel|>"),
    ),
    Family("a template that ends no turn", "llama", PIECES, "endless", SENTENCE),
    Family("a tokenizer that lacks signs (T5)", "llama", tokenizers.few_signs, "mistral", SENTENCE),
    Family("weights that lack a layer", "llama", BYTES, "qwen2", CHATML, spoil=lose_a_layer),
)
