"""Opens pages of the Prefect UI in a browser, and reads their text and their graph."""

import io
import json
import time

import numpy as np
from PIL import Image

from tests.chromium import PATIENCE, Tab

SIZE = {"width": 1440, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
TEXT = "(document.body?.innerText ?? '')"
CANVAS = """(() => {
  const box = document.querySelector('canvas')?.getBoundingClientRect();
  return box && {x: box.x, y: box.y, width: box.width, height: box.height, scale: 1};
})()"""
CLICK = """(() => {
  const found = [...document.querySelectorAll('*')].findLast(e => e.innerText?.trim() === LABEL);
  found?.click();
  return found;
})()"""
NODE_PIXELS = 1000


def words(tab: Tab) -> str:
    """What a reader sees."""
    return str(tab.run(TEXT))


def visit(tab: Tab, address: str, *texts: str) -> None:
    """Go to a page and come back when it shows every one of ``texts``."""
    tab.ask("Page.navigate", url=address)
    tab.until(f"{json.dumps(texts)}.every(text => {TEXT}.includes(text))")


def turn(tab: Tab, label: str, *texts: str) -> None:
    """Click on a word of the page and come back when it shows every one of ``texts``."""
    tab.until(CLICK.replace("LABEL", json.dumps(label)))
    tab.until(f"{json.dumps(texts)}.every(text => {TEXT}.includes(text))")


def drawn(tab: Tab) -> bool:
    """Whether the graph, which is painted and not written, comes to show nodes of runs that ended
    well, bright green on dark, and to rest."""
    until = time.monotonic() + PATIENCE
    tab.until(f"{CANVAS}?.width > 0")
    last = b""
    while time.monotonic() < until:
        taken = tab.picture(clip=tab.run(CANVAS))
        if taken == last and _green(taken) > NODE_PIXELS:
            return True
        last = taken
    return False


def _green(taken: bytes) -> int:
    with Image.open(io.BytesIO(taken)) as found:
        red, green, blue = np.moveaxis(np.asarray(found.convert("RGB"), int), -1, 0)
    return int(((green > 120) & (green > 1.4 * red) & (green > 1.4 * blue)).sum())
