"""Ranking lists for the Fixed Ranker: retrieval queries with an answer among their candidates."""

from cosearch.run.stage import Stage, run_stage
from cosearch.train.lists import make_lists


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/fixed_ranker_data."""
    make_lists(stage, stage.paths.fixed_ranker_data)


def main() -> None:
    """Run the stage from the command line."""
    run_stage("fixed_ranker_data", __doc__, page)


if __name__ == "__main__":
    main()
