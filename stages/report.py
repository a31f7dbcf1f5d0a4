"""The report of a scope: one HTML page that opens offline, and the same as Markdown."""

from cosearch.report.write import write_report
from cosearch.run.stage import Stage, run_stage
from cosearch.tables.evidence import gather


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/report/SCOPE."""
    scope = stage.axes["scope"]
    found = gather(stage.settings, stage.paths, scope)
    write_report(stage.paths, found, stage.paths.report(scope))
    stage.publish(f"Report {scope}", stage.paths.report(scope) / "report.md")


def main() -> None:
    """Run the stage from the command line."""
    run_stage("report", __doc__, page, "scope")


if __name__ == "__main__":
    main()
