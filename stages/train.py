"""Train one variant: joint GRPO rounds of agent and ranker."""

from cosearch.run.stage import Stage, run_stage
from cosearch.train.joint import train_variant


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/train/PART/seed_SEED/VARIANT."""
    row = stage.settings.training(stage.axes["row"])
    variant = stage.settings.variant(row.variant)
    train_variant(stage, variant, row, stage.paths.train(row.part, row.seed, row.variant))


def main() -> None:
    """Run the stage from the command line."""
    run_stage("train", __doc__, page, "row")


if __name__ == "__main__":
    main()
