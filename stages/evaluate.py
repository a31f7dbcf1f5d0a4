"""Evaluate one system over the test questions."""

from cosearch.evaluation.score import write_score
from cosearch.evaluation.systems import evaluate_system
from cosearch.files.committed import restore_committed
from cosearch.run.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/evaluate/PART/seed_SEED/SYSTEM and artifacts/PROFILE/metrics/ROW."""
    row = stage.settings.evaluation(stage.axes["row"])
    target = stage.paths.evaluate(row.part, row.seed, row.system)
    numbers = stage.paths.score(stage.axes["row"])
    restore_committed(numbers)
    evaluate_system(stage, row, target)
    score = write_score(target, numbers)
    stage.progress.say(f"{stage.title}: {score}")


def main() -> None:
    """Run the stage from the command line."""
    run_stage("evaluate", __doc__, page, "row")


if __name__ == "__main__":
    main()
