"""The few calls of Prefect's documented REST API that the monitor needs.

Prefect's own client takes three CPU seconds to import, in every stage; this one takes none.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

ALIVE_SECONDS = 10.0
"""A server that does not say within this that it is well is none. On a busy machine it takes time
to answer, and nobody waits for this."""


class Refused(Exception):
    """The server answered with an error."""


@dataclass(frozen=True, slots=True)
class Rest:
    """An API at ``url`` (``http://127.0.0.1:4200/api``). Each call waits ``seconds`` at most for
    a connection and for an answer, and has a connection of its own: a server closes idle ones."""

    url: str
    headers: Mapping[str, str]
    seconds: float

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The answer's JSON, None where it has none.

        Raises:
            OSError, HTTPException, ValueError: no answer, or not a proper one.
            Refused: the answer is an error.
        """
        return self._ask(method, path, body, self.seconds)

    def alive(self) -> bool:
        """Whether the server says in time that it is well."""
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
    """Headers for a server that asks who is there, by Prefect's own variables."""
    if key := environment.get("PREFECT_API_KEY"):
        return {"Authorization": f"Bearer {key}"}
    if pair := environment.get("PREFECT_API_AUTH_STRING"):
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    return {}
