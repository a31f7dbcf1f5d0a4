"""Build the FAISS index over the encoded corpus and check that passages find themselves."""

from cosearch.data.index import open_corpus
from cosearch.engines.retrieval.build import build_index
from cosearch.params.blocks import Index
from cosearch.run.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/index."""
    manifest = build_index(
        stage.paths.encoded,
        stage.paths.index,
        stage.settings.section(Index),
        progress=lambda done, total: stage.progress.show("index", done, total, "vectors"),
    )
    _, retriever = open_corpus(stage.settings, stage.paths)
    stage.progress.say(
        f"index: {manifest['rows']} vectors, self-retrieval {retriever.self_check_rate:.3f}"
    )


def main() -> None:
    """Run the stage from the command line."""
    run_stage("index", __doc__, page)


if __name__ == "__main__":
    main()
