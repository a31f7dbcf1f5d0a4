"""A quantised GGUF file -> an ordinary Hugging Face folder of a Llama model.

The weights are dequantised, so they stay a little below the original checkpoint.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer, LlamaForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint


def convert_gguf(source: Path, target: Path, dtype: torch.dtype) -> None:
    """Write tokenizer, configuration and safetensors of ``source`` to ``target``.

    ``from_pretrained(gguf_file=…)`` would mark the model as quantised and refuse to save it, so the
    dequantised tensors go into a model built from the configuration. Raises ValueError when the
    file does not hold exactly that model's weights.
    """
    folder, name = source.parent, source.name
    config = AutoConfig.from_pretrained(folder, gguf_file=name)
    model: Any = LlamaForCausalLM(config)
    tensors = load_gguf_checkpoint(str(source), return_tensors=True, model_to_load=model)["tensors"]
    report = model.load_state_dict(tensors, strict=False)
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    if set(report.missing_keys) - tied or report.unexpected_keys:
        raise ValueError(f"{source}: not the weights of {type(model).__name__}: {report}")
    model.tie_weights()
    model.to(dtype).save_pretrained(target)
    # Said here, because a saved tokenizer records it, and else it follows the shell.
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name, local_files_only=True)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    convert_gguf(Path(sys.argv[1]), Path(sys.argv[2]), getattr(torch, sys.argv[3]))
