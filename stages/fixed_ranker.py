"""Train the Fixed Ranker: single-turn GRPO on r_rel."""

from cosearch.run.stage import Stage, run_stage
from cosearch.train.ranker import train_fixed_ranker


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/fixed_ranker/seed_SEED."""
    seed = stage.axes["seed"]
    lists = stage.paths.fixed_ranker_data / "lists.parquet"
    train_fixed_ranker(stage, seed, lists, stage.paths.fixed_ranker(seed))


def main() -> None:
    """Run the stage from the command line."""
    run_stage("fixed_ranker", __doc__, page, "seed")


if __name__ == "__main__":
    main()
