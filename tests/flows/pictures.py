"""Pictures of the UI for the documents: ``python -m tests.flows.pictures FOLDER``.

Takes the latest reproduce flow and the latest training of the server that PREFECT_API_URL names.
"""

import base64
import json
import os
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

from tests.evaluation.chromium import Tab, find_chromium, running

SIZE = {"width": 1440, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
SETTLED = "new Promise(done => setTimeout(done, 4000))"
"""The graph is drawn and moves into place; the page does not say when it has."""


CLICK = "[...document.querySelectorAll('*')].findLast(e => e.innerText?.trim() === %s).click()"


def latest(url: str, flow: str, state: str) -> str:
    """The id of a flow's latest run in a state."""
    body = {
        "flows": {"name": {"any_": [flow]}},
        "flow_runs": {"state": {"type": {"any_": [state]}}},
        "sort": "START_TIME_DESC",
        "limit": 1,
    }
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/flow_runs/filter", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: list[dict[str, Any]] = json.load(answer)
    if not found:
        sys.exit(f"error: no run of {flow} in state {state}")
    return str(found[0]["id"])


def take(tab: Tab, address: str, text: str, click: str, path: Path) -> None:
    """A picture of a page once it shows ``text``, after a click on a word of it."""
    tab.ask("Page.navigate", url=address)
    tab.until(f"document.body && document.body.innerText.includes({json.dumps(text)})")
    if click:
        tab.run(CLICK % json.dumps(click))
    tab.run(SETTLED)
    picture = tab.ask("Page.captureScreenshot", format="png")["data"]
    path.write_bytes(base64.b64decode(picture))
    print(path)


def main() -> None:
    """Write ui_flow.png, ui_training.png and ui_artifacts.png."""
    url, folder = os.environ["PREFECT_API_URL"], Path(sys.argv[1])
    program = find_chromium()
    if program is None:
        sys.exit("error: no Chromium on this machine (apt-get install chromium)")
    page = url.removesuffix("/api")
    flow, training = latest(url, "reproduce", "COMPLETED"), latest(url, "train", "COMPLETED")
    with tempfile.TemporaryDirectory() as profile, running(program, Path(profile)) as pipe:
        tab = Tab(pipe)
        tab.ask("Emulation.setDeviceMetricsOverride", **SIZE)
        for name, run, text, click in (
            ("flow", flow, "reproduce", ""),
            ("training", training, "train@", ""),
            ("artifacts", training, "train@", "Artifacts"),
        ):
            take(tab, f"{page}/runs/flow-run/{run}", text, click, folder / f"ui_{name}.png")


if __name__ == "__main__":
    main()
