"""Models and tokenizers from folders on this disk, and the number types they are loaded in.

Weights come from safetensors only, and no code that a folder brings is run.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
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
from transformers.utils.logging import disable_progress_bar

disable_progress_bar()

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


def places(folder: str | Path) -> int | None:
    """How many tokens a sequence of this model may have, or None where config.json does not say for
    certain: rotary positions may be stretched."""
    config: Any = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    rotary = getattr(config, "rope_parameters", None) or {}
    if rotary.get("rope_type", "default") != "default":
        return None
    found: int | None = getattr(config, "max_position_embeddings", None)
    return found


def load_causal_lm(folder: str | Path, dtype: str) -> Any:
    """A causal language model in evaluation mode, from safetensors of our own disk only.

    Raises ValueError for a folder of another kind, or whose weights are not exactly the model's.
    """
    model, lacking, strange = _loaded(AutoModelForCausalLM, folder, dtype)
    _refuse(folder, "a causal language model", lacking, strange)
    return model


def load_scorer(folder: str | Path, dtype: str) -> Any:
    """A sequence classifier with one output in evaluation mode, from safetensors of our own disk.

    Raises ValueError when the folder holds another kind of model.
    """
    model, lacking, strange = _loaded(AutoModelForSequenceClassification, folder, dtype)
    _refuse(folder, "a scorer", lacking, strange)
    if model.config.num_labels != 1:
        raise ValueError(
            f"{folder}: not a scorer (num_labels={model.config.num_labels}); a model for sequence"
            " classification with one label is needed"
        )
    if model.config.pad_token_id is None:
        raise ValueError(f"{folder}: config.json names no pad_token_id, and pairs are padded")
    return model


def load_encoder(folder: str | Path, dtype: str) -> Any:
    """An encoder in evaluation mode, from safetensors of our own disk only.

    A pooling layer may be lacking and the head of another task may be there, because only the last
    hidden states are read. Raises ValueError for any other weight that is not the model's.
    """
    model, lacking, strange = _loaded(AutoModel, folder, dtype)
    parts = {name for name, _ in model.named_children()}
    prefix = f"{model.base_model_prefix}."
    inside = [name for name in strange if name.removeprefix(prefix).split(".")[0] in parts]
    needed = [name for name in lacking if not name.startswith("pooler.")]
    _refuse(folder, "an encoder", needed, inside)
    return model


def _loaded(kind: Any, folder: str | Path, dtype: str) -> tuple[Any, list[str], list[str]]:
    """The model of a folder, the names of weights that the folder lacks or holds in another shape,
    and of those for which the model has no place. transformers fills the former with random
    numbers, and drops the latter."""
    try:
        model, report = kind.from_pretrained(
            folder,
            dtype=DTYPES[dtype],
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    except (ValueError, KeyError, OSError) as error:
        why = str(error).partition("\n")[0]
        raise ValueError(f"{folder}: {kind.__name__} cannot read this model: {why}") from error
    if getattr(model.config, "attn_logit_softcapping", None):
        model.set_attn_implementation("eager")  # torch's own kernel leaves the cap out
    lacking = {*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])}
    return model.eval(), sorted(lacking), sorted(report["unexpected_keys"])


def _refuse(
    folder: str | Path, wanted: str, lacking: Sequence[str], strange: Sequence[str]
) -> None:
    found = {"lacks or misshapes": lacking, "has no use for": strange}
    faults = [f"{what} {_some(names)}" for what, names in found.items() if names]
    if faults:
        raise ValueError(
            f"{folder}: not {wanted} as its config.json describes it; it {' and '.join(faults)}:"
            " fetch the folder again, or name one whose weights and config.json belong together"
        )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


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
