"""Evaluate one system over the test questions."""

from cosearch.evaluation.systems import evaluate_system
from cosearch.run.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/evaluate/PART/seed_SEED/SYSTEM."""
    row = stage.settings.evaluation(stage.axes["row"])
    evaluate_system(stage, row, stage.paths.evaluate(row.part, row.seed, row.system))


def main() -> None:
    """Run the stage from the command line."""
    run_stage("evaluate", __doc__, page, "row")


if __name__ == "__main__":
    main()
