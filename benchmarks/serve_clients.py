"""Clients that cost little: many connections in one process, each of which sends its next request after an answer."""

from __future__ import annotations

import asyncio
import io
import json
import time
from dataclasses import dataclass, field

import numpy as np

KINDS = {"json": "application/json", "npy": "application/x-npy"}


@dataclass
class Load:
    """What clients sent and got."""

    latencies: list[float] = field(default_factory=list)
    sent: int = 0
    wrong: int = 0  # answers of another status, or with other actions than the version's
    lost: int = 0  # requests without an answer
    versions: set[str] = field(default_factory=set)


def body_of(observations: np.ndarray, kind: str) -> bytes:
    """The body of a request."""
    if kind == "json":
        return json.dumps({"observations": observations.tolist(), "deterministic": True}).encode()
    file = io.BytesIO()
    np.save(file, observations)
    return file.getvalue()


class Connection(asyncio.Protocol):
    """One client. `expected` has the right actions by version."""

    def __init__(self, load: Load, observations: np.ndarray, kind: str, expected: dict[str, list[int]]) -> None:
        body = body_of(observations, kind)
        head = f"POST /act HTTP/1.1\r\nHost: x\r\nContent-Type: {KINDS[kind]}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._request, self._load, self._kind, self._expected = head.encode() + body, load, kind, expected
        self._received, self._began, self._stopping, self._waits = b"", 0.0, False, False
        self.finished = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._waits, self._began = True, time.perf_counter()
        self._load.sent += 1
        self._transport.write(self._request)

    def stop(self) -> None:
        """After the answer that is waited for."""
        self._stopping = True

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        self._received, self._waits = b"", False
        self._load.latencies.append(time.perf_counter() - self._began)
        self._check(head, body)
        if self._stopping:
            self._transport.close()
        else:
            self._send()

    def _check(self, head: bytes, body: bytes) -> None:
        if not head.startswith(b"HTTP/1.1 200"):
            self._load.wrong += 1
            return
        if self._kind == "json":
            answer = json.loads(body)
            version, actions = str(answer["version"]), answer["actions"]
        else:
            version = head.lower().partition(b"x-version:")[2].partition(b"\r\n")[0].strip().decode()
            actions = np.load(io.BytesIO(body)).tolist()
        self._load.versions.add(version)
        if actions != self._expected.get(version, self._expected.get("")):
            self._load.wrong += 1

    def connection_lost(self, _: Exception | None) -> None:
        self._load.lost += self._waits
        if not self.finished.done():
            self.finished.set_result(None)


async def run_clients(
    port: int, clients: int, seconds: float, observations: np.ndarray, kind: str, expected: dict[str, list[int]]
) -> Load:
    """Load a server for so long; every request that was sent is waited for."""
    load, loop = Load(), asyncio.get_running_loop()
    made = [
        (await loop.create_connection(lambda: Connection(load, observations, kind, expected), "127.0.0.1", port))[1]
        for _ in range(clients)
    ]
    await asyncio.sleep(seconds)
    for connection in made:
        connection.stop()
    await asyncio.wait_for(asyncio.gather(*(connection.finished for connection in made)), 60)
    return load
