"""A headless Chromium, driven over the pipe that it speaks its DevTools protocol on."""

import base64
import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 120.0
"""Seconds without an answer after which a browser counts as dead."""
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-extensions", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--remote-debugging-pipe"),
)


def find_chromium() -> str | None:
    """The browser's program, if the machine has one."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Pipe:
    """Messages to and from the browser: JSON, each followed by a zero byte."""

    def __init__(self, into: int, out_of: int) -> None:
        self.into, self.out_of = into, out_of
        self.buffer = b""
        self.number = 0
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, session: str | None = None, **values: Any) -> dict[str, Any]:
        """Send a command and wait for its result; events on the way are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": values}
        if session is not None:
            message["sessionId"] = session
        os.write(self.into, json.dumps(message).encode() + b"\0")
        while (answer := self.read()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def read(self) -> dict[str, Any]:
        """The next message."""
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.out_of], [], [], PATIENCE)
            assert ready, "the browser does not answer"
            part = os.read(self.out_of, 1 << 16)
            assert part, "the browser has gone"
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)


class Tab:
    """One page. ``requests`` are all addresses it asked for, ``complaints`` what went wrong."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        target = pipe.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = pipe.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **values: Any) -> dict[str, Any]:
        return self.pipe.ask(method, self.session, **values)

    def open(self, page: Path, fragment: str = "") -> None:
        """Load a file afresh; events of pages before it are forgotten."""
        for address in ("about:blank", f"{page.as_uri()}{fragment}"):
            self.pipe.events.clear()
            self.ask("Page.navigate", url=address)
            while not any(e["method"] == "Page.loadEventFired" for e in self._events()):
                self.pipe.events.append(self.pipe.read())

    def run(self, script: str) -> Any:
        """The value of an expression; a promise is waited for."""
        result = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, condition: str) -> None:
        """Come back when the page meets ``condition``."""
        look = f"const look = () => {condition} ? done() : setTimeout(look, 10); look();"
        self.run(f"new Promise(done => {{ {look} }})")

    def press(self, key: str, text: str | None = None) -> None:
        """Press a key; ``text`` is what it types, if not its name."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, text=text or key)

    def screen(self, width: int, height: int, *, dark: bool = False) -> None:
        """Look at pages on a screen of so many pixels, under a light or a dark scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, **clip: Any) -> bytes:
        """What the screen shows, as PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png", **clip)["data"])

    @property
    def requests(self) -> list[str]:
        return [
            event["params"]["request"]["url"]
            for event in self._events()
            if event["method"] == "Network.requestWillBeSent"
        ]

    @property
    def complaints(self) -> list[Mapping[str, Any]]:
        methods = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event["params"] for event in self._events() if event["method"] in methods]

    def _events(self) -> list[dict[str, Any]]:
        return [event for event in self.pipe.events if event.get("sessionId") == self.session]


@contextmanager
def running(program: str, profile: Path) -> Iterator[Pipe]:
    """A browser for as long as the block lasts. ``profile`` is a folder of its own."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # The protocol is spoken on descriptors 3 and 4, whatever these are called here.
    command = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    browser = subprocess.Popen(
        ["bash", "-c", command, "chromium", program, *_FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    pipe = Pipe(ours_out, ours_in)
    try:
        yield pipe
        pipe.ask("Browser.close")
        browser.wait(PATIENCE)
    finally:
        browser.kill()
        browser.wait()
        os.close(ours_out)
        os.close(ours_in)
