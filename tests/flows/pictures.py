"""Pictures of the UI for the documents: ``python -m tests.flows.pictures FOLDER``.

Takes the latest reproduce flow and the latest training of the server that PREFECT_API_URL names.
"""

import os
import sys
import tempfile
from pathlib import Path

from tests.chromium import Tab, find_chromium, running
from tests.flows.pages import SIZE, drawn, turn, visit
from tests.flows.ui import Prefect


def main() -> None:
    """Write ui_flow.png, ui_training.png and ui_artifacts.png."""
    prefect = Prefect(os.environ["PREFECT_API_URL"].removesuffix("/api"))
    folder, program = Path(sys.argv[1]), find_chromium()
    if program is None:
        sys.exit("error: no Chromium on this machine (apt-get install chromium)")
    flow, training = (prefect.flow_run(kind)["id"] for kind in ("reproduce", "train"))
    with tempfile.TemporaryDirectory() as profile, running(program, Path(profile)) as pipe:
        tab = Tab(pipe)
        tab.ask("Emulation.setDeviceMetricsOverride", **SIZE)
        for name, run, label, text in (
            ("flow", flow, "Logs", "Finished in state"),
            ("training", training, "Logs", "round 1: "),
            ("artifacts", training, "Artifacts", "-progress"),
        ):
            visit(tab, f"{prefect.page}/runs/flow-run/{run}", "Completed")
            turn(tab, label, text)
            if not drawn(tab):
                sys.exit(f"error: {run}: the graph is not drawn")
            path = folder / f"ui_{name}.png"
            path.write_bytes(tab.picture())
            print(path)


if __name__ == "__main__":
    main()
