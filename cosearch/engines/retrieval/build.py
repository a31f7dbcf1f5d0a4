"""The dense encoder, the index and the retriever, as the parameters describe them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cosearch.core.protocols import ShowProgress
from cosearch.engines.models import model_folder
from cosearch.params.blocks import Encoder, Index


def encoder_factory(folder: str | Path, settings: Encoder, threads: int) -> Callable[[int], Any]:
    """A maker of the dense encoder of a worker, by its number. It can be pickled, so worker
    processes can call it too."""
    from cosearch.engines.retrieval.encoder import DenseEncoder

    return partial(DenseEncoder, str(model_folder(folder)), settings, threads)


def build_index(
    vectors: Path, folder: Path, settings: Index, *, progress: ShowProgress
) -> dict[str, Any]:
    """Build the index over encoded shards and return its manifest.

    Raises ValueError where this machine has too little memory or disk for it.
    """
    from cosearch.engines.retrieval.index_faiss import write_index
    from cosearch.engines.retrieval.index_kinds import IndexRecipe
    from cosearch.engines.retrieval.index_need import Room

    return write_index(
        vectors,
        folder,
        IndexRecipe.of(settings),
        room=Room.here(folder),
        recall={str(kind): share for kind, share in settings.recall.items()},
        threads=settings.threads,
        progress=progress,
    )


def build_retriever(folder: Path, corpus: Any, encoder: Any, settings: Index) -> Any:
    """The retriever over a finished index. Raises ValueError where its parts do not match."""
    from cosearch.engines.retrieval.index_need import Room
    from cosearch.engines.retrieval.retriever_faiss import FaissRetriever

    return FaissRetriever(folder, corpus, encoder, settings, room=Room.here(folder))
