"""The identity of every stage instance of the profile: settings, models and code that it runs."""

import shutil

from cosearch.run.identity import write_identities
from cosearch.run.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/identity."""
    shutil.rmtree(stage.paths.root / "identity", ignore_errors=True)
    count = write_identities(stage.settings, stage.paths)
    stage.progress.say(f"identity: {count} stage instances")


def main() -> None:
    """Run the stage from the command line."""
    run_stage("identity", __doc__, page)


if __name__ == "__main__":
    main()
