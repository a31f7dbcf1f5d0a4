"""Questions and corpus: generated, or read from published files."""

import os
from pathlib import Path

from cosearch.data.assemble import assemble
from cosearch.data.own_files import check_files
from cosearch.params.blocks import Data
from cosearch.params.rows_file import profile_folders
from cosearch.run.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write artifacts/PROFILE/data."""
    settings = stage.settings.section(Data)
    check_files(profile_folders().get(stage.paths.profile, Path()))
    folder = Path(os.environ.get("COSEARCH_DATA") or settings.folder or ".")
    manifest = assemble(settings, folder, stage.paths)
    stage.progress.say(f"corpus: {manifest['corpus']['rows']} passages")


def main() -> None:
    """Run the stage from the command line."""
    run_stage("data", __doc__, page)


if __name__ == "__main__":
    main()
