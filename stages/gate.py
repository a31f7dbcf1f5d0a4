"""Check that every ranker of a seed reads content; rows of one that does not are withheld."""

from cosearch.evaluation.gate import write_gate
from cosearch.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/gate/seed_SEED."""
    write_gate(stage, stage.axes["seed"], stage.paths.gate(stage.axes["seed"]))


def main() -> None:
    """Run the stage from the command line."""
    run_stage("gate", __doc__, page, "seed")


if __name__ == "__main__":
    main()
