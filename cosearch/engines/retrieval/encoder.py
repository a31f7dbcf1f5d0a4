"""The dense encoder of queries and passages (E5 in Section 4.1): any Hugging Face encoder folder.

Masked mean (or first-token) pooling in float32, then L2 normalisation. Texts are sorted by length
inside one call, so the batches of a shard depend on that shard alone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel

from cosearch.core.types import Passage
from cosearch.engines.loading import check_device, load_tokenizer
from cosearch.files.hashes import hash_folder

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class DenseEncoder:
    """Texts -> float32 rows. Raises ValueError for a folder, dtype or pooling it cannot use.

    ``max_length`` cuts in tokens, prefix included; ``device`` is cpu or cuda, a GPU that torch must
    see; ``threads`` is torch's number per process.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        query_prefix: str,
        passage_prefix: str,
        pooling: str,
        normalize: bool,
        max_length: int,
        batch_size: int,
        dtype: str,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        if not (Path(folder) / "config.json").is_file():
            raise ValueError(f"{folder}: no model folder (config.json is missing)")
        if dtype not in _DTYPES or pooling not in _POOLINGS:
            raise ValueError(f"encoder: dtype {dtype!r} or pooling {pooling!r} is unknown")
        check_device("encoder", device)
        torch.set_num_threads(threads)
        self._tokenizer: Any = load_tokenizer(folder)
        # Encoders count absolute positions from the left: padding there would move every token.
        self._tokenizer.padding_side = "right"
        self._model: Any = AutoModel.from_pretrained(folder, dtype=_DTYPES[dtype]).to(device).eval()
        self._pool = _POOLINGS[pooling]
        self._prefixes = (query_prefix, passage_prefix)
        self._normalize, self._max_length = normalize, max_length
        self._batch_size, self._device = batch_size, device
        self.dimension: int = self._model.config.hidden_size
        self.fingerprint: dict[str, Any] = encoder_fingerprint(
            folder,
            query_prefix=query_prefix,
            passage_prefix=passage_prefix,
            pooling=pooling,
            normalize=normalize,
            max_length=max_length,
            dtype=dtype,
        )

    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        """``[len(queries), dimension]`` float32."""
        return self._encode([self._prefixes[0] + query for query in queries])

    def encode_passages(self, passages: Sequence[Passage]) -> np.ndarray:
        """``[len(passages), dimension]`` float32; title and text are two lines, as in wiki-18."""
        return self._encode([f"{self._prefixes[1]}{p.title}\n{p.text}" for p in passages])

    @torch.inference_mode()
    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.empty((len(texts), self.dimension), np.float32)
        if not texts:
            return rows
        ids = self._tokenizer(list(texts), truncation=True, max_length=self._max_length)[
            "input_ids"
        ]
        order = sorted(range(len(texts)), key=lambda row: (len(ids[row]), row))
        for start in range(0, len(order), self._batch_size):
            chosen = order[start : start + self._batch_size]
            rows[chosen] = self._forward([ids[row] for row in chosen])
        return rows

    def _forward(self, ids: list[list[int]]) -> np.ndarray:
        batch = self._tokenizer.pad({"input_ids": ids}, return_tensors="pt").to(self._device)
        states = self._model(**batch).last_hidden_state.float()
        pooled = self._pool(states, batch["attention_mask"].unsqueeze(-1))
        if self._normalize:
            pooled = torch.nn.functional.normalize(pooled, dim=-1)
        result: np.ndarray = pooled.cpu().numpy()
        return result


def encoder_fingerprint(folder: str | Path, **settings: Any) -> dict[str, Any]:
    """What an index is bound to: the hash of the model folder and the settings that change vectors.

    Batch size and device are left out: they move last bits only.
    """
    return {"model": hash_folder(Path(folder)), **settings}


def _mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (states * mask).sum(1) / mask.sum(1)


def _first(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states[:, 0]


_POOLINGS = {"mean": _mean, "cls": _first}
