"""Pictures of the documents: ``python -m tests.pictures [report] [terminal] [ui]``, or all of them.

``report`` shows the report that the last run wrote. ``terminal`` shows what commands print. ``ui``
shows Prefect's UI: the latest runs on the server that PREFECT_API_URL names, or else a small
project that is made here, on a server that is started for it.
"""

import argparse
import base64
import io
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

from tests.chromium import Tab, find_chromium, running
from tests.flows.pages import SIZE, drawn, turn, visit
from tests.flows.ui import ROOT, Prefect, serving_ui
from tests.pipeline.project import Project

IMAGES = ROOT / "docs" / "images"
REPORTS = [ROOT / f"artifacts/tiny/report/{scope}_1/report.html" for scope in ("all", "core")]
"""The reports of which the first that is there is shown."""
SCREENS = {
    "report": (1280, 1000, False, ""),
    "report_dark": (1280, 1000, True, ""),
    "report_narrow": (400, 1000, False, ""),
    "report_narrow_dark": (400, 1000, True, "#differences"),
    "report_row": (1280, 600, False, "#row-cosearch"),
    "report_trajectories": (1280, 1300, False, "#episodes?branch=relevance_and_main"),
}
"""Picture -> width, height, whether the screen is dark, and the place on the page."""
COMMANDS = {"ask": "python -m cosearch ask --row cosearch-0 'where was Torvester born ?'"}
"""Picture -> the command whose output it shows."""
COLUMNS = 100
COLOURS = 256
READY = "[...document.images].every(one => one.complete)"


def report_pictures(tab: Tab) -> None:
    """The report on wide and narrow screens, light and dark."""
    page = next((path for path in REPORTS if path.is_file()), None)
    if page is None:
        sys.exit("error: no report; `make repro` writes one")
    for name, (width, height, dark, place) in SCREENS.items():
        tab.screen(width, height, dark=dark)
        tab.open(page, place)
        tab.until(READY)
        save(name, tab.picture())


def terminal_pictures(tab: Tab) -> None:
    """What commands print, as a terminal shows it."""
    for name, command in COMMANDS.items():
        save(name, terminal_picture(tab, command))


def terminal_picture(tab: Tab, command: str) -> bytes:
    """A command and what it prints, as PNG. The command runs in the project's root."""
    words = shlex.split(command)
    words[0] = sys.executable if words[0] == "python" else words[0]
    colours = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    colours["TTY_INTERACTIVE"] = "0"  # no spinners, whose frames would all stand there
    done = subprocess.run(
        words, cwd=ROOT, env=os.environ | colours, capture_output=True, text=True, check=True
    )
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(done.stdout))
    return drawing_picture(tab, console.export_svg(title=""))


def drawing_picture(tab: Tab, svg: str) -> bytes:
    """An SVG as PNG, as large as it is on a screen of 1000 pixels."""
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as page:
        data = base64.b64encode(svg.encode("utf-8")).decode("ascii")
        page.write('<!doctype html><body style="margin:0"><img width="1000" ')
        page.write(f'src="data:image/svg+xml;base64,{data}">')
        page.flush()
        tab.screen(1000, 800)
        tab.open(Path(page.name))
        tab.until(READY)
        height = tab.run("Math.ceil(document.images[0].getBoundingClientRect().height)")
        tab.screen(1000, height)
        return tab.picture()


def ui_pictures(tab: Tab) -> None:
    """A graph, a training and its artifacts in Prefect's UI."""
    with watched() as prefect:
        flow, training = (prefect.flow_run(kind)["id"] for kind in ("reproduce", "train"))
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
            save(f"ui_{name}", tab.picture())


@contextmanager
def watched() -> Iterator[Prefect]:
    """A server that has watched a whole graph."""
    if url := os.environ.get("PREFECT_API_URL"):
        yield Prefect(url.removesuffix("/api"))
        return
    with tempfile.TemporaryDirectory() as folder, serving_ui(Path(folder)) as prefect:
        os.environ |= {"PREFECT_API_URL": prefect.url, "PREFECT_HOME": f"{folder}/.prefect"}
        project = Project.make(Path(folder) / "project")
        project.command(sys.executable, "-m", "flows.reproduce", "evaluate@cosearch-0")
        yield prefect


def save(name: str, png: bytes) -> None:
    """Write a picture in few colours, which makes it small, and say where it is."""
    path = IMAGES / f"{name}.png"
    with Image.open(io.BytesIO(png)) as taken:
        taken.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path.relative_to(ROOT))


KINDS: Mapping[str, Callable[[Tab], None]] = {
    "report": report_pictures,
    "terminal": terminal_pictures,
    "ui": ui_pictures,
}


def main() -> None:
    """Make the pictures that the command line names."""
    parser = argparse.ArgumentParser(description="Make the pictures of the documents.")
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []])
    kinds, program = parser.parse_args().kinds or list(KINDS), find_chromium()
    if program is None:
        sys.exit("error: no Chromium on this machine (apt-get install chromium)")
    with tempfile.TemporaryDirectory() as profile, running(program, Path(profile)) as pipe:
        for kind in kinds:
            tab = Tab(pipe)
            tab.ask("Emulation.setScrollbarsHidden", hidden=True)
            KINDS[kind](tab)


if __name__ == "__main__":
    main()
