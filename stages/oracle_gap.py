"""Oracle gap analysis (Table 1): what perfect ranking would add to the agent as it is."""

from cosearch.run.stage import Stage, run_stage
from cosearch.tables.evidence import gather
from cosearch.tables.publish import oracle_gap_tables, write_tables


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/oracle_gap/SCOPE."""
    scope = stage.axes["scope"]
    found = gather(stage.settings, stage.paths, scope)
    target = stage.paths.oracle_gap(scope)
    write_tables(oracle_gap_tables(found), target)


def main() -> None:
    """Run the stage from the command line."""
    run_stage("oracle_gap", __doc__, page, "scope")


if __name__ == "__main__":
    main()
