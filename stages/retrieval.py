"""Measure the fixed retriever per data set, beside BM25."""

from cosearch.evaluation.retriever import measure_retriever
from cosearch.run.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/retrieval."""
    measure_retriever(stage, stage.paths.retrieval)


def main() -> None:
    """Run the stage from the command line."""
    run_stage("retrieval", __doc__, page)


if __name__ == "__main__":
    main()
