"""Encode the corpus into shards of vectors.

Several hosts on one file system share the work: each runs this page with COSEARCH_PART=i/n (0/4 to
3/4), outside the graph. The run without it finds their shards and publishes them.
"""

import os
import time

from cosearch.data.encode import HostPart, encode_corpus
from cosearch.data.pace import Pace
from cosearch.engines.retrieval.build import encoder_factory
from cosearch.files.artifacts import move_folder
from cosearch.params.blocks import Encoder, Models
from cosearch.run.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/encoded; finished shards of a killed run are kept."""
    work = stage.paths.run("encode", "shards")
    settings = stage.settings.section(Encoder)
    folder = stage.settings.section(Models).encoder
    part, pace = os.environ.get("COSEARCH_PART"), Pace(time.monotonic)
    manifest = encode_corpus(
        stage.paths.corpus,
        work,
        encoder_factory(folder, settings, stage.settings.file.runtime.threads),
        settings,
        progress=lambda done, total: stage.progress.show(
            "encode", done, total, f"passages {pace.left(done, total)}".rstrip()
        ),
        part=HostPart.parse(part) if part else None,
    )
    if manifest is None:
        stage.progress.say(f"encode: part {part} is done; run without COSEARCH_PART to publish")
    else:
        move_folder(work, stage.paths.encoded)


def main() -> None:
    """Run the stage from the command line."""
    run_stage("encode", __doc__, page)


if __name__ == "__main__":
    main()
