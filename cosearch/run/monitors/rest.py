"""A small client for Prefect's documented REST API.

Importing Prefect's own client takes three CPU seconds, and every stage would pay for it. This
client needs only the standard library.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

ALIVE_SECONDS = 10.0
"""Seconds in which the server must report that it is healthy. A server on a busy machine answers
slowly. Only the courier's thread waits for the answer."""


class Refused(Exception):
    """The server answered with an error."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Calls an API at ``url`` (``http://127.0.0.1:4200/api``).

    A call waits at most ``seconds`` for a connection and for an answer. Each call opens its own
    connection, because the server closes idle ones.
    """

    url: str
    headers: Mapping[str, str]
    seconds: float

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of the answer, or None if the answer is empty.

        Raises:
            OSError, HTTPException, ValueError: the server does not answer, or answers no JSON.
            Refused: the answer is an error.
        """
        return self._ask(method, path, body, self.seconds)

    def alive(self) -> bool:
        """True if the server reports in time that it is healthy."""
        try:
            return self._ask("GET", "/health", None, ALIVE_SECONDS) is True
        except (OSError, HTTPException, ValueError, Refused):
            return False

    def _ask(self, method: str, path: str, body: object, seconds: float) -> Any:
        where = urlsplit(self.url)
        kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
        connection = kind(where.hostname or "", where.port, timeout=seconds)
        try:
            content = None if body is None else json.dumps(body, allow_nan=False).encode()
            headers = {"Content-Type": "application/json", **self.headers}
            connection.request(method, f"{where.path.rstrip('/')}{path}", content, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise Refused(f"{method} {path}: {answer.status} {text[:200].decode(errors='replace')}")
        return json.loads(text) if text else None


def credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """Headers of authentication, from the environment variables that Prefect itself uses."""
    if key := environment.get("PREFECT_API_KEY"):
        return {"Authorization": f"Bearer {key}"}
    if pair := environment.get("PREFECT_API_AUTH_STRING"):
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    return {}
