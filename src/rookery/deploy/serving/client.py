"""A client of `rookery serve`. It needs NumPy and Python's own library only."""

from __future__ import annotations

import http.client
import io
import json
from typing import Any, Self
from urllib.parse import urlsplit

import numpy as np

from rookery.errors import RequestRefused


class Client:
    """Asks a server for actions, over one connection that is kept: each thread needs a client of its own."""

    def __init__(self, url: str, token: str | None = None, timeout: float = 30.0) -> None:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=timeout)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.version: str | None = None  # of the agent that gave the last answer

    def act(self, observations: Any, deterministic: bool = True, **more: Any) -> Any:
        """Actions for a batch of observations: an array for an array, else lists. `more` may be `action_masks`, or
        `session` and `starts` for a recurrent agent."""
        if isinstance(observations, np.ndarray) and not more:
            file = io.BytesIO()
            np.save(file, observations, allow_pickle=False)
            headers = {"Content-Type": "application/x-npy", "X-Deterministic": str(deterministic)}
            return self._ask("POST", "/act", file.getvalue(), headers)
        value = {"observations": observations, "deterministic": deterministic, **more}
        body = json.dumps(value, default=lambda array: array.tolist()).encode()
        return self._ask("POST", "/act", body, {"Content-Type": "application/json"})["actions"]

    def health(self) -> dict[str, Any]:
        """What `/health` says."""
        return self._ask("GET", "/health", None, {})

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Any:
        kept = self._connection.sock is not None
        try:
            self._connection.request(method, path, body, {**headers, **self._headers})
            response = self._connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self._connection.close()
            if not kept:
                raise
            return self._ask(method, path, body, headers)  # the server had closed a connection that was not used
        except BaseException:
            self._connection.close()  # an answer that comes late must not be taken for the next one
            raise
        content = response.read()
        if response.status != 200:
            raise RequestRefused(f"{path}: {response.status} {_sentence(content)}", response.status)
        self.version = response.headers.get("X-Version", self.version)
        if response.headers.get("Content-Type") == "application/x-npy":
            return np.load(io.BytesIO(content), allow_pickle=False)
        value = json.loads(content)
        self.version = str(value["version"])
        return value


def _sentence(content: bytes) -> str:
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode("utf-8", "replace")
