"""Encode the corpus into shards of vectors."""

from cosearch.artifacts import move_folder
from cosearch.data.encode import encode_corpus
from cosearch.engines import build
from cosearch.schema import Encoder, Models
from cosearch.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/encoded; finished shards of a killed run are kept."""
    work = stage.paths.run("encode", "shards")
    settings = stage.settings.section(Encoder)
    folder = stage.settings.section(Models).encoder
    encode_corpus(
        stage.paths.corpus,
        work,
        build.encoder_factory(folder, settings, stage.settings.file.runtime.threads),
        shard_size=settings.shard_size,
        processes=settings.processes,
        progress=lambda done, total: stage.progress.show("encode", done, total, "passages"),
    )
    move_folder(work, stage.paths.encoded)


def main() -> None:
    """Run the stage from the command line."""
    run_stage("encode", __doc__, page)


if __name__ == "__main__":
    main()
