"""Check that a row's trained ranker reads content; rows of one that does not are withheld."""

from cosearch.evaluation.gate import write_gate
from cosearch.run.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/gate/PART/seed_SEED/VARIANT."""
    row = stage.settings.training(stage.axes["row"])
    write_gate(stage, row, stage.paths.gate(row.part, row.seed, row.variant))


def main() -> None:
    """Run the stage from the command line."""
    run_stage("gate", __doc__, page, "row")


if __name__ == "__main__":
    main()
