"""Models and tokenizers from folders on this disk, and the number types they are loaded in.

Weights come from safetensors only, and no code that a folder brings is run.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)
from transformers.tokenization_utils_base import (
    ADDED_TOKENS_FILE,
    SPECIAL_TOKENS_MAP_FILE,
    TOKENIZER_CONFIG_FILE,
)
from transformers.utils.hub import CHAT_TEMPLATE_FILE

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
_BESIDE_VOCABULARY = (
    ADDED_TOKENS_FILE,
    CHAT_TEMPLATE_FILE,
    SPECIAL_TOKENS_MAP_FILE,
    TOKENIZER_CONFIG_FILE,
)
"""The files of any tokenizer, but for those of its vocabulary."""


def at_least_float32(values: torch.Tensor) -> torch.Tensor:
    """``values`` in a type that probabilities can be summed in."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def check_device(whose: str, device: str) -> None:
    """Raises ValueError for a device that torch does not have here."""
    if device not in ("cpu", "cuda"):
        raise ValueError(f"{whose}: device {device!r} is neither cpu nor cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"{whose}: device cuda: torch sees no GPU here; set its device to cpu")


def load_causal_lm(folder: str | Path, dtype: str) -> Any:
    """A causal language model in evaluation mode, from safetensors of our own disk only."""
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=DTYPES[dtype], use_safetensors=True, trust_remote_code=False
    )
    return model.eval()


def load_scorer(folder: str | Path, dtype: str) -> Any:
    """A sequence classifier with one output in evaluation mode, from safetensors of our own disk.

    Raises ValueError when the folder holds another kind of model.
    """
    model, report = AutoModelForSequenceClassification.from_pretrained(
        folder,
        dtype=DTYPES[dtype],
        use_safetensors=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    missing = sorted(report["missing_keys"])
    if missing or model.config.num_labels != 1:
        raise ValueError(
            f"{folder}: not a scorer (num_labels={model.config.num_labels}, weights not in the"
            f" folder: {missing}); a model for sequence classification with one label is needed"
        )
    if model.config.pad_token_id is None:
        raise ValueError(f"{folder}: config.json names no pad_token_id, and pairs are padded")
    return model.eval()


def load_tokenizer(folder: str | Path) -> Any:
    """The tokenizer exactly as its ``tokenizer.json`` describes it.

    ``AutoTokenizer`` picks a class by the model's type and may put that class's own pipeline (a
    byte-level one for Qwen2) in the place of the file's. It serves folders without the file only.
    """
    exact = (Path(folder) / "tokenizer.json").is_file()
    loader: Any = PreTrainedTokenizerFast if exact else AutoTokenizer
    return loader.from_pretrained(folder, trust_remote_code=False)


def copy_tokenizer(tokenizer: Any, source: Path, target: Path) -> None:
    """Copy the files of ``tokenizer``, which was loaded from ``source``, byte by byte.

    A tokenizer that saves itself records how it was loaded, such as whether the shell was offline,
    and under which class; the copy loads everywhere as the source does.
    """
    target.mkdir(parents=True, exist_ok=True)
    for name in (*_BESIDE_VOCABULARY, *tokenizer.vocab_files_names.values()):
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
