"""What the rows of a part left at a seed, by hash: the one file that tables of a scope wait for."""

from cosearch.run.stage import Stage, run_stage
from cosearch.statistics.collected import collect_rows


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/collected/PART-SEED.json."""
    collect_rows(stage.paths, stage.settings.graph.collections[stage.axes["rows"]])


def main() -> None:
    """Run the stage from the command line."""
    run_stage("collected", __doc__, page, "rows")


if __name__ == "__main__":
    main()
