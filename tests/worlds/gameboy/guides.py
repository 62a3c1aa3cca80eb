"""Guides for tests, good and bad, and a server that answers as a language model might, or not at all."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__)


class Good:
    """Knows what to do."""

    def hint(self, state: dict[str, int], screen: np.ndarray) -> dict[str, Any]:
        assert screen.shape == (144, 160, 3) and screen.any()
        return {"target": "has_key == 1", "bonus": np.float32(0.5), "text": f"at {state['x']}"}


class Sleeps:
    """Never answers."""

    def hint(self, state: dict[str, int], screen: np.ndarray) -> None:
        time.sleep(600)


class Crashes:
    """Takes its process with it."""

    def hint(self, state: dict[str, int], screen: np.ndarray) -> None:
        os._exit(3)


class Raises:
    """Has an error in it, and goes on."""

    def hint(self, state: dict[str, int], screen: np.ndarray) -> None:
        raise KeyError("lost")


class Babbles:
    """Answers too much."""

    def hint(self, state: dict[str, int], screen: np.ndarray) -> dict[str, str]:
        return {"text": "x" * (2 << 20)}


class Unmade:
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("no model here")


class Stub(ThreadingHTTPServer):
    """Answers each request with `content` of `status`, after `delay` seconds; None: it closes the connection."""

    daemon_threads = True
    content: bytes | None = b""
    status, delay = 200, 0.0
    headers: dict[str, str] = {}

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[dict[str, Any], str | None]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def says(self, text: Any) -> None:
        """Answer as a model that says this."""
        self.content = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


class Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((body, self.headers.get("Authorization")))
        time.sleep(self.server.delay)
        if self.server.content is None:
            self.close_connection = True
            return
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(self.server.content)
        except OSError:  # nobody listens any more
            self.close_connection = True

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def stub() -> Iterator[Stub]:
    """A running server."""
    with Stub() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
