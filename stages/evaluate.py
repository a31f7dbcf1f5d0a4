"""Evaluate one system over the test questions."""

from cosearch.evaluation.systems import evaluate_system
from cosearch.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/evaluate/seed_SEED/SYSTEM."""
    name, seed = stage.axes["system"], stage.axes["seed"]
    evaluate_system(stage, name, seed, stage.paths.evaluate(name, seed))


def main() -> None:
    """Run the stage from the command line."""
    run_stage("evaluate", __doc__, page, "system", "seed")


if __name__ == "__main__":
    main()
