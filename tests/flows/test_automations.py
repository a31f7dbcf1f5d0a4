"""Automations on a real server: what a stage tells it reaches a web address."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cosearch.run.events import Began, Ended, TrainingDiverged
from cosearch.run.monitors.prefect import StageRun
from cosearch.run.monitors.rest import Rest
from tests.flows.ui import PATIENCE, Prefect

TAGS = ["cosearch", "workspace:automations"]


@contextmanager
def listening() -> Iterator[tuple[str, queue.Queue[str]]]:
    """A web address, and the texts that are posted there."""
    told: queue.Queue[str] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.put(json.loads(body)["text"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook", told
        server.shutdown()
        thread.join()


def play(prefect: Prefect, *events: Began | Ended | TrainingDiverged) -> None:
    """Tell a server what a stage tells it."""
    run = StageRun(Rest(prefect.url, {}, PATIENCE), TAGS, None)
    for event in events:
        run.deliver(event)


def automations(*words: str) -> str:
    command = [sys.executable, "-m", "flows.automations", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_failures_divergence_and_ends_are_posted(
    prefect: Prefect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", prefect.url)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    with listening() as (url, told):
        for _ in range(2):
            names = automations("--webhook", url).splitlines()
        listed = prefect.ask("/automations/filter", {})
        assert sorted(one["name"] for one in listed) == sorted(names)
        diverged = TrainingDiverged(7, "agent_entropy = 0.01 is below min_entropy")
        play(prefect, Began("train@a-0", "tiny"), diverged, Ended('no "space" left'))
        play(prefect, Began("report@core_1", "tiny"), Ended(""))
        found = sorted(told.get(timeout=PATIENCE) for _ in range(3))
    assert found == [
        "cosearch run ended: report@core_1 is Completed ",
        'cosearch stage failed: train@a-0 is Failed no "space" left',
        "cosearch training diverged: train@a-0 agent_entropy = 0.01 is below min_entropy",
    ]
    automations("--remove")
    assert prefect.ask("/automations/filter", {}) == []
