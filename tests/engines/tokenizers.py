"""Tokenizers of the kinds that model families have, of a few hundred tokens each."""

import json
from collections.abc import Sequence
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

LINES = [
    "Question: who wrote the book of the dead ?",
    "Oslo is the capital of Norway [1] > [2]",
    '{"name": "search", "arguments": {"query": "x"}}',
    "<reason> Straße, naïve, 1984 </reason> <answer> it </answer>",
]
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Where Qwen2's tokenizer cuts a text into words; others differ little."""
BYTES = [f"<0x{number:02X}>" for number in range(256)]


def byte_level(specials: Sequence[str]) -> Tokenizer:
    """BPE over bytes, as GPT-2's successors have it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.add_special_tokens([AddedToken(one, normalized=False) for one in specials])
    return tokenizer


def byte_level_with_bos(specials: Sequence[str]) -> Tokenizer:
    """The same, which puts its first special token before every text that is encoded alone."""
    tokenizer = byte_level(specials)
    bos = specials[0]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))]
    )
    return tokenizer


def metaspace(specials: Sequence[str]) -> Tokenizer:
    """BPE with byte fallback that puts a blank before a text, as Llama 2 and Mistral have it."""
    tokenizer = _pieces(models.BPE(), specials)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return tokenizer


def prepended(specials: Sequence[str]) -> Tokenizer:
    """The older form, which also puts a blank behind every special token, as Phi-3 has it."""
    tokenizer = _pieces(models.BPE(), specials)
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    return tokenizer


def no_blank(specials: Sequence[str]) -> Tokenizer:
    """BPE with byte fallback that puts no blank anywhere, as Gemma has it."""
    tokenizer = _pieces(models.BPE(), specials)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    return tokenizer


def unigram(specials: Sequence[str]) -> Tokenizer:
    """A unigram model with byte fallback and a blank before a text."""
    tokenizer = _pieces(models.Unigram(), specials)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    return tokenizer


def few_signs(specials: Sequence[str]) -> Tokenizer:
    """A unigram model that lacks most signs, such as "<", as T5 has it."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=100, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(["who wrote the book of the dead"], trainer)
    tokenizer.add_special_tokens(list(specials))
    return tokenizer


def _pieces(model: Any, specials: Sequence[str]) -> Tokenizer:
    """Pieces of SentencePiece's kind, trained on a few lines, with a token for every byte."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    bpe, own = isinstance(model, models.BPE), ["<unk>", *BYTES]
    kind: Any = trainers.BpeTrainer if bpe else trainers.UnigramTrainer
    more = {} if bpe else {"unk_token": "<unk>"}
    trainer = kind(vocab_size=440, special_tokens=own, show_progress=False, **more)
    tokenizer.train_from_iterator(LINES, trainer)
    told = json.loads(tokenizer.to_str())
    told["added_tokens"] = [one for one in told["added_tokens"] if one["content"] == "<unk>"]
    told["model"]["byte_fallback"] = True
    if bpe:
        told["model"] |= {"unk_token": "<unk>", "fuse_unk": True}
    tokenizer = Tokenizer.from_str(json.dumps(told))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens([AddedToken(one, normalized=False) for one in specials])
    return tokenizer
