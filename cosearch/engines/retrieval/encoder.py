"""The dense encoder of queries and passages (E5 in Section 4.1): any Hugging Face encoder folder.

Masked mean pooling in float32, then L2 normalisation. Texts are sorted by length
inside one call, so the batches of a shard depend on that shard alone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cosearch.core.types import Passage
from cosearch.engines.loading import DTYPES, check_device, load_encoder, load_tokenizer
from cosearch.files.hashes import hash_folder
from cosearch.params.blocks import Encoder

_BINDING = ("query_prefix", "passage_prefix", "pooling", "normalize", "max_length", "dtype")
"""Settings of the encoder's fingerprint, in its order."""


class DenseEncoder:
    """Texts -> float32 rows. Raises ValueError for a folder, dtype, pooling or device it cannot
    use.

    ``settings.max_length`` cuts in tokens, prefix included. ``threads`` is torch's number per
    process.
    """

    def __init__(self, folder: str | Path, settings: Encoder, *, threads: int = 1) -> None:
        dtype, pooling = settings.dtype, settings.pooling
        if not (Path(folder) / "config.json").is_file():
            raise ValueError(f"{folder}: no model folder (config.json is missing)")
        if dtype not in DTYPES or pooling not in _POOLINGS:
            raise ValueError(f"encoder: dtype {dtype!r} or pooling {pooling!r} is unknown")
        check_device("encoder", settings.device)
        torch.set_num_threads(threads)
        self._settings = settings
        self._tokenizer: Any = load_tokenizer(folder)
        # Encoders count absolute positions from the left: padding there would move every token.
        self._tokenizer.padding_side = "right"
        model = load_encoder(folder, dtype)
        _check_length(folder, self._tokenizer, model, settings.max_length)
        self._model: Any = model.to(settings.device)
        self._pool = _POOLINGS[pooling]
        self.dimension: int = self._model.config.hidden_size
        self.fingerprint: dict[str, Any] = encoder_fingerprint(folder, settings)

    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        """``[len(queries), dimension]`` float32."""
        return self._encode([self._settings.query_prefix + query for query in queries])

    def encode_passages(self, passages: Sequence[Passage]) -> np.ndarray:
        """``[len(passages), dimension]`` float32; title and text are two lines, as in wiki-18."""
        prefix = self._settings.passage_prefix
        return self._encode([f"{prefix}{p.title}\n{p.text}" for p in passages])

    @torch.inference_mode()
    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.empty((len(texts), self.dimension), np.float32)
        if not texts:
            return rows
        size, longest = self._settings.batch_size, self._settings.max_length
        ids = self._tokenizer(list(texts), truncation=True, max_length=longest)["input_ids"]
        order = sorted(range(len(texts)), key=lambda row: (len(ids[row]), row))
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            rows[chosen] = self._forward([ids[row] for row in chosen])
        return rows

    def _forward(self, ids: list[list[int]]) -> np.ndarray:
        batch = self._tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        batch = batch.to(self._settings.device)
        states = self._model(**batch).last_hidden_state.float()
        pooled = self._pool(states, batch["attention_mask"].unsqueeze(-1))
        if self._settings.normalize:
            pooled = torch.nn.functional.normalize(pooled, dim=-1)
        result: np.ndarray = pooled.cpu().numpy()
        return result


def _check_length(folder: str | Path, tokenizer: Any, model: Any, longest: int) -> None:
    """Raises ValueError where the model has fewer positions than ``longest``, or no padding."""
    places = positions(model)
    if places is not None and longest > places:
        raise ValueError(
            f"encoder.max_length={longest}: {folder} has {places} positions; set it to {places}"
        )
    if tokenizer.pad_token_id is None:
        raise ValueError(f"{folder}: the tokenizer names no pad_token, and texts are padded")


def positions(model: Any) -> int | None:
    """How many tokens a model can place, or None for one that sets no bound. A table of positions
    that pads (RoBERTa's) begins to count after its padding."""
    for name, table in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(table, torch.nn.Embedding):
            padding = table.padding_idx
            return table.num_embeddings - (0 if padding is None else padding + 1)
    found: int | None = getattr(model.config, "max_position_embeddings", None)
    return found


def encoder_fingerprint(folder: str | Path, settings: Encoder) -> dict[str, Any]:
    """What an index is bound to: the hash of the model folder and the settings that change vectors.

    Batch size and device are left out, because they change the last bits of a vector only.
    """
    bound = {name: getattr(settings, name) for name in _BINDING}
    return {"model": hash_folder(Path(folder)), **bound}


def _mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (states * mask).sum(1) / mask.sum(1)


_POOLINGS = {"mean": _mean}
