"""How stages open the corpus and the retriever over it, and how they encode and index a collection
of lists when they need one."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cosearch.data.corpus import Corpus
from cosearch.data.encode import encode_corpus
from cosearch.engines.models import set_threads
from cosearch.engines.retrieval.build import build_index, build_retriever, encoder_factory
from cosearch.files.artifacts import Paths
from cosearch.params import blocks
from cosearch.params.settings import Settings

Show = Callable[[str, int, int], None]
"""Long work calls it with the name of its items, how many are done and how many there are."""


def open_corpus(settings: Settings, paths: Paths) -> tuple[Corpus, Any]:
    """The corpus, and the retriever over it with every binding checked."""
    corpus = Corpus(paths.corpus)
    return corpus, _open_index(settings, corpus, paths.index)


def open_collection(settings: Settings, corpus: Corpus, work: Path, show: Show) -> Any:
    """The retriever over a corpus that no stage has encoded: shards of vectors and index are made
    below ``work`` by the profile's own rules. Finished shards of a killed run are kept."""
    models, encoder = settings.section(blocks.Models), settings.section(blocks.Encoder)
    threads = settings.file.runtime.threads
    set_threads(threads)
    encode_corpus(
        corpus.folder,
        work / "encoded",
        encoder_factory(models.encoder, encoder, threads),
        encoder,
        progress=partial(show, "passages"),
    )
    build_index(
        work / "encoded",
        work / "index",
        settings.section(blocks.Index),
        progress=partial(show, "vectors"),
    )
    return _open_index(settings, corpus, work / "index")


def _open_index(settings: Settings, corpus: Corpus, folder: Path) -> Any:
    models, encoder = settings.section(blocks.Models), settings.section(blocks.Encoder)
    threads = settings.file.runtime.threads
    set_threads(threads)
    dense = encoder_factory(models.encoder, encoder, threads)(0)
    return build_retriever(folder, corpus, dense, settings.section(blocks.Index))
