"""What an env and its guide's process send each other: a JSON object, and the bytes of a screen."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

HEADER = struct.Struct(">II")
LARGEST = 1 << 20  # bytes of either part


def send_frame(sock: socket.socket, content: Any, screen: bytes = b"") -> None:
    """Send both parts."""
    text = json.dumps(content).encode()
    sock.sendall(HEADER.pack(len(text), len(screen)) + text + screen)


def receive_frame(sock: socket.socket, seconds: float | None = None) -> tuple[Any, bytes]:
    """Both parts; TimeoutError after so many seconds, EOFError if the other side is gone, ValueError if what comes is
    too large or no JSON."""
    deadline = None if seconds is None else time.monotonic() + seconds
    sizes = HEADER.unpack(_receive(sock, HEADER.size, deadline))
    if max(sizes) > LARGEST:
        raise ValueError(f"an answer of {max(sizes):,} bytes is too large")
    text, screen = (_receive(sock, size, deadline) for size in sizes)
    return json.loads(text), screen


def _receive(sock: socket.socket, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            sock.settimeout(left)
        part = sock.recv(min(size - len(data), 1 << 16))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
