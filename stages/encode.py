"""Encode the corpus into shards of vectors."""

from cosearch.data.encode import encode_corpus
from cosearch.engines import build
from cosearch.schema import Encoder, Models
from cosearch.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/encoded; finished shards of a killed run are kept."""
    settings = stage.settings.section(Encoder)
    folder = stage.settings.section(Models).encoder
    encode_corpus(
        stage.paths.corpus,
        stage.paths.encoded,
        build.encoder_factory(folder, settings, stage.settings.file.runtime.threads),
        shard_size=settings.shard_size,
        processes=settings.processes,
        progress=lambda done, total: stage.progress.show("encode", done, total, "passages"),
    )


def main() -> None:
    """Run the stage from the command line."""
    run_stage("encode", __doc__, page)


if __name__ == "__main__":
    main()
