"""The corpus together with the retriever over it."""

from typing import Any

from cosearch import schema
from cosearch.artifacts import Paths
from cosearch.config import Settings
from cosearch.data.corpus import Corpus
from cosearch.engines import build


def open_corpus(settings: Settings, paths: Paths) -> tuple[Corpus, Any]:
    """The corpus, and the retriever over it with every binding checked."""
    models, encoder = settings.section(schema.Models), settings.section(schema.Encoder)
    threads = settings.file.runtime.threads
    build.set_threads(threads)
    corpus = Corpus(paths.corpus)
    dense = build.encoder_factory(models.encoder, encoder, threads)()
    index = settings.section(schema.Index)
    return corpus, build.build_retriever(paths.index, corpus, dense, index, threads=threads)
