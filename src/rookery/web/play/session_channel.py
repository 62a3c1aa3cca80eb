"""Messages between the server and the process of a session, on a socket.

The process sends a length, a kind and that many bytes: what goes to the page as it is. It is told lines of JSON.
"""

from __future__ import annotations

import enum
import json
import select
import socket
import struct
from typing import Any

HEAD = struct.Struct("<IB")  # length and kind
IMAGE_HEAD = struct.Struct("<I")  # before an image in a binary message: the length of its JSON
LARGEST = 32 << 20  # bytes of a message
LONGEST_LINE = 4096  # bytes, of a message from the page


class MessageKind(enum.IntEnum):
    """What a message of the process is."""

    ALIVE = 0  # for the server alone
    TEXT = 1
    BINARY = 2


class SessionChannel:
    """The process's end."""

    def __init__(self, link: socket.socket) -> None:
        self._link, self._rest = link, b""

    def alive(self) -> None:
        """Say that the session is not stuck."""
        self._send(MessageKind.ALIVE, b"")

    def send(self, message: dict[str, Any], image: bytes | None = None) -> None:
        """A message to the page. With an image it is binary: the length of the JSON, the JSON, the image."""
        import orjson

        text = orjson.dumps(message, option=orjson.OPT_SERIALIZE_NUMPY)
        if image is None:
            self._send(MessageKind.TEXT, text)
        else:
            self._send(MessageKind.BINARY, IMAGE_HEAD.pack(len(text)) + text + image)

    def receive(self, seconds: float) -> list[dict[str, Any]]:
        """The messages that have come; waits up to this long for the first. Raises EOFError when the server is gone."""
        if not select.select([self._link], [], [], max(0.0, seconds))[0]:
            return []
        data = self._link.recv(1 << 16)
        if not data:
            raise EOFError
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def _send(self, kind: MessageKind, payload: bytes) -> None:
        self._link.sendall(HEAD.pack(len(payload), kind) + payload)
