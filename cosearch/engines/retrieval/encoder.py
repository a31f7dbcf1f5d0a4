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

    ``settings.max_length`` cuts in tokens, prefix included; ``cut_passages`` says how many of the
    passages encoded so far it cut. ``threads`` is torch's number per process. ``worker`` numbers
    the processes that encode side by side: each has a GPU of its own, as long as there are enough.
    """

    def __init__(
        self, folder: str | Path, settings: Encoder, threads: int = 1, worker: int = 0
    ) -> None:
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
        self._device = worker_device(settings.device, worker, torch.cuda.device_count())
        self._model: Any = model.to(self._device)
        self._pool = _POOLINGS[pooling]
        self.dimension: int = self._model.config.hidden_size
        self.fingerprint: dict[str, Any] = encoder_fingerprint(folder, settings)
        self.cut_passages = 0

    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        """``[len(queries), dimension]`` float32."""
        return self._encode(self._ids(self._asked(queries)))

    def cut_queries(self, queries: Sequence[str]) -> list[str]:
        """Those of ``queries`` of which the encoder reads the beginning alone."""
        texts = self._asked(queries)
        return [queries[row] for row in self._cut(texts, self._ids(texts))]

    def encode_passages(self, passages: Sequence[Passage]) -> np.ndarray:
        """``[len(passages), dimension]`` float32; title and text are two lines, as in wiki-18."""
        prefix = self._settings.passage_prefix
        texts = [f"{prefix}{p.title}\n{p.text}" for p in passages]
        ids = self._ids(texts)
        self.cut_passages += len(self._cut(texts, ids))
        return self._encode(ids)

    def _asked(self, queries: Sequence[str]) -> list[str]:
        return [self._settings.query_prefix + query for query in queries]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        longest = self._settings.max_length
        found: list[list[int]] = self._tokenizer(list(texts), truncation=True, max_length=longest)[
            "input_ids"
        ]
        return found

    def _cut(self, texts: Sequence[str], ids: Sequence[Sequence[int]]) -> list[int]:
        """Places of the texts that are longer than their ``ids``. Only those that fill the length
        can be, so no other text is read twice."""
        longest = self._settings.max_length
        full = [row for row, one in enumerate(ids) if len(one) >= longest]
        if not full:
            return []
        whole = self._tokenizer([texts[row] for row in full], verbose=False)["input_ids"]
        return [row for row, one in zip(full, whole, strict=True) if len(one) > len(ids[row])]

    @torch.inference_mode()
    def _encode(self, ids: Sequence[list[int]]) -> np.ndarray:
        rows, size = np.empty((len(ids), self.dimension), np.float32), self._settings.batch_size
        order = sorted(range(len(ids)), key=lambda row: (len(ids[row]), row))
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            rows[chosen] = self._forward([ids[row] for row in chosen])
        return rows

    def _forward(self, ids: list[list[int]]) -> np.ndarray:
        batch = self._tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        batch = batch.to(self._device)
        states = self._model(**batch).last_hidden_state.float()
        pooled = self._pool(states, batch["attention_mask"].unsqueeze(-1))
        if self._settings.normalize:
            pooled = torch.nn.functional.normalize(pooled, dim=-1)
        result: np.ndarray = pooled.cpu().numpy()
        return result


def worker_device(device: str, worker: int, gpus: int) -> str:
    """Where worker number ``worker`` encodes; with ``cuda``, on one of ``gpus`` GPUs in turn."""
    return f"{device}:{worker % gpus}" if device == "cuda" else device


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
