"""Train one variant: joint GRPO rounds of agent and ranker."""

from cosearch.stage import Stage, run_stage
from cosearch.train.joint import train_variant


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/train/seed_SEED/VARIANT."""
    name, seed = stage.axes["variant"], stage.axes["seed"]
    train_variant(stage, stage.settings.variant(name), seed, stage.paths.train(name, seed))


def main() -> None:
    """Run the stage from the command line."""
    run_stage("train", __doc__, page, "variant", "seed")


if __name__ == "__main__":
    main()
