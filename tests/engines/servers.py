"""A small server over HTTP that keeps what it is asked, and can break or hang."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """``asked`` holds method, path and body of each request. ``broken`` answers 503, ``gate`` holds
    back every answer but that of /health while it is closed."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.broken = False
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/api"

    def bodies(self, path: str) -> list[Any]:
        return [body for _, asked, body in self.asked if asked == path]


class Handler(BaseHTTPRequestHandler):
    """Answers as Prefect does, as far as the monitor looks."""

    server: Server

    def do_GET(self) -> None:
        self.answer(200, True)

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(size) or b"null")
        if not self.server.gate.is_set():
            self.server.waiting.set()
            self.server.gate.wait()
        if self.server.broken:
            self.answer(503, {"detail": "the database is locked"})
            return
        path = self.path.removeprefix("/api")
        self.server.asked.append((self.command, path, body))
        self.server.headers.append(dict(self.headers))
        found: Any = {"id": f"id-{len(self.server.asked)}"}
        self.answer(200, [{"id": "old"}] if path == "/flow_runs/filter" else found)

    do_PATCH = do_POST

    def answer(self, status: int, value: object) -> None:
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words: object) -> None:
        return


@contextmanager
def serving() -> Iterator[Server]:
    """A server on a free port of this machine."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()
