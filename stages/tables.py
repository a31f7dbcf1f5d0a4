"""Tables and learning curves of a scope."""

from cosearch.run.stage import Stage, run_stage
from cosearch.tables.evidence import gather
from cosearch.tables.publish import all_tables, read_curves, write_curves, write_tables


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/tables/SCOPE and artifacts/PROFILE/summary/SCOPE/curves.csv."""
    scope = stage.axes["scope"]
    found = gather(stage.settings, stage.paths, scope)
    write_tables(all_tables(found), stage.paths.tables(scope))
    write_curves(read_curves(found), stage.paths.summary(scope))


def main() -> None:
    """Run the stage from the command line."""
    run_stage("tables", __doc__, page, "scope")


if __name__ == "__main__":
    main()
