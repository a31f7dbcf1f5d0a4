"""The dense encoder, the index and the retriever, as the parameters describe them."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from cosearch.engines.models import model_folder
from cosearch.params.blocks import Encoder, Index


def encoder_factory(folder: str | Path, settings: Encoder, threads: int) -> Callable[[], Any]:
    """A picklable maker of the dense encoder, for worker processes too."""
    from cosearch.engines.retrieval.encoder import Encoder as DenseEncoder

    return partial(
        DenseEncoder,
        str(model_folder(folder)),
        query_prefix=settings.query_prefix,
        passage_prefix=settings.passage_prefix,
        pooling=settings.pooling,
        normalize=settings.normalize,
        max_length=settings.max_length,
        batch_size=settings.batch_size,
        dtype=settings.dtype,
        device=settings.device,
        threads=threads,
    )


def build_index(
    vectors: Path,
    folder: Path,
    settings: Index,
    *,
    threads: int,
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """Build the index over encoded shards, if there is room for it, and return its manifest."""
    from cosearch.engines.retrieval.index_faiss import write_index
    from cosearch.engines.retrieval.index_need import Room

    return write_index(
        vectors,
        folder,
        _recipe(settings),
        room=Room.here(folder),
        recall={str(kind): share for kind, share in settings.recall.items()},
        threads=threads,
        progress=progress,
    )


def build_retriever(
    folder: Path, corpus: Any, encoder: Any, settings: Index, *, threads: int
) -> Any:
    """The retriever engine over a checked index."""
    from cosearch.engines.retrieval.index_faiss import Gpus
    from cosearch.engines.retrieval.index_need import Room
    from cosearch.engines.retrieval.retriever_faiss import FaissRetriever

    return FaissRetriever(
        folder,
        corpus,
        encoder,
        _recipe(settings),
        self_check=settings.self_check,
        self_check_floor=settings.self_check_floor[settings.kind],
        room=Room.here(folder),
        recall={str(kind): share for kind, share in settings.recall.items()},
        gpus=None if settings.gpus is None else Gpus(**settings.gpus.model_dump()),
        threads=threads,
    )


def _recipe(settings: Index) -> Any:
    from cosearch.engines.retrieval.index_kinds import IndexRecipe

    return IndexRecipe(**settings.model_dump(include={field.name for field in fields(IndexRecipe)}))
