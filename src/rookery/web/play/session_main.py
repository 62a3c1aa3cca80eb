"""The process of a session: it loads, then plays in time, and does what the page says."""

from __future__ import annotations

import enum
import json
import selectors
import socket
import struct
import sys
import time
from typing import Any

from rookery.engine.workers.channel import new_selector
from rookery.web.play.play_request import LARGEST_SEED, PlayRequest, ReplayRequest

MOST_UNSEEN = 3  # frames under way: a slow page gets the newest, never a queue
HIDDEN_SECONDS = 3.0  # without a frame being seen, after which nobody looks, and the game waits
LEAST_INTERVAL = 0.012  # seconds between two frames
DETAIL_INTERVAL = 0.1  # seconds between two readings of the policy, which nobody reads faster
SPEEDS = (0.05, 50.0)
MOST_BEHIND = 5  # steps that are made up for when a step was late
ALIVE_SECONDS = 1.0


class SessionClock:
    """Says when the next step is due, and how many are."""

    def __init__(self, fps: float) -> None:
        self._fps, self.speed, self.paused = fps, 1.0, False
        self._next = time.perf_counter()

    @property
    def wait(self) -> float:
        """Seconds until the next step."""
        return self._next - time.perf_counter()

    def due(self) -> int:
        """How many steps are due now; those that are too late are omitted."""
        interval, now = 1.0 / (self._fps * self.speed), time.perf_counter()
        steps = 0 if now < self._next else 1 + int((now - self._next) / interval)
        self._next = now + interval if steps > MOST_BEHIND else self._next + steps * interval
        return min(steps, MOST_BEHIND)

    def restart(self) -> None:
        self._next = time.perf_counter()


class PlayLoop:
    """Steps a session in time, and sends frames to a page that sees them."""

    def __init__(self, session: Any, keyboard: Any, channel: SessionChannel) -> None:
        self._session, self._keyboard, self._channel = session, keyboard, channel
        self.clock = SessionClock(session.fps)
        self._number = self._seen = 0  # of the last frame that was sent, and of the last that was seen
        self._sent_at = self._detailed_at = self._alive_at = 0.0
        self._seen_at = time.perf_counter()
        self._changed = True  # since the last frame

    @property
    def _waits(self) -> bool:
        """Whether no steps are made: the page says so, or nobody looks."""
        hidden = self._number - self._seen >= MOST_UNSEEN and time.perf_counter() - self._seen_at > HIDDEN_SECONDS
        return self.clock.paused or hidden

    def turn(self) -> None:
        """Messages, the steps that are due, and a frame."""
        for message in self._channel.receive(ALIVE_SECONDS if self._waits else min(ALIVE_SECONDS, self.clock.wait)):
            self.follow(message)
        if self._waits:
            self.clock.restart()
        else:
            for _ in range(self.clock.due()):
                self._session.step()
                self._changed = True
        self._show()

    def follow(self, message: dict[str, Any]) -> None:
        """Do what the page says. Values of the wrong kind are ignored."""
        if _is_number(message.get("seen")):
            self._seen, self._seen_at = min(self._number, int(message["seen"])), time.perf_counter()
        if isinstance(message.get("pause"), bool):
            self.clock.paused = self._changed = message["pause"]
        if message.get("step") is True:
            self.clock.paused = self._changed = True
            self._session.step()
        if _is_number(message.get("speed")):
            self.clock.speed = min(max(float(message["speed"]), SPEEDS[0]), SPEEDS[1])
            self.clock.restart()
        if isinstance(message.get("deterministic"), bool):
            self._session.deterministic, self._changed = message["deterministic"], True
        if _is_number(message.get("at")) and hasattr(self._session, "go_to"):
            self._session.go_to(int(message["at"]))
            self._changed = True
        if _is_number(message.get("seed")) and 0 <= message["seed"] <= LARGEST_SEED:
            self._session.restart(int(message["seed"]))
            self._changed = True
        self._press(message.get("keys"))

    def _press(self, keys: Any) -> None:
        if self._keyboard is None or not isinstance(keys, dict) or not isinstance(keys.get("held"), list):
            return
        sequence = keys.get("sequence", 0)
        held = [key for key in keys["held"] if isinstance(key, str)]
        self._keyboard.press(int(sequence) if _is_number(sequence) else 0, held)

    def _show(self) -> None:
        """Send a frame, if there is a new one and the page has seen those before."""
        now = time.perf_counter()
        if now - self._alive_at >= ALIVE_SECONDS:
            self._alive_at = now
            self._channel.alive()
        quiet = now - self._sent_at < LEAST_INTERVAL and not self.clock.paused
        if not self._changed or quiet or self._number - self._seen >= MOST_UNSEEN:
            return
        detailed = self.clock.paused or now - self._detailed_at >= DETAIL_INTERVAL
        message, image = self._session.frame(detailed)
        self._detailed_at = now if detailed else self._detailed_at
        self._number += 1
        self._channel.send(
            {"kind": "frame", "n": self._number, "paused": self.clock.paused, "speed": self.clock.speed, **message},
            image,
        )
        self._sent_at, self._changed = now, False


def main(fd: str, request: str) -> None:
    """Play until the server closes the socket. Failures are reported to the page."""
    channel = SessionChannel(socket.socket(fileno=int(fd)))
    try:
        _play(ReplayRequest.from_json(request) or PlayRequest.from_json(request), channel)
    except (EOFError, ConnectionError):  # the page or the server has gone
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 - an env or an agent can fail in any way
        channel.send({"kind": "error", "error": _sentence(error)})
        sys.exit(1)


def _play(request: PlayRequest | ReplayRequest, channel: SessionChannel) -> None:
    channel.send({"kind": "loading", "agent": request.name})
    # They import torch, while the page shows that it loads.
    from rookery.web.play.play_session import open_session
    from rookery.web.play.replay_session import open_replay

    opened: Any = open_session(request, channel.send) if isinstance(request, PlayRequest) else open_replay(request)
    with opened as session:
        channel.send({"kind": "ready", **session.describe()})
        loop = PlayLoop(session, session.keyboard, channel)
        while True:
            loop.turn()


def _sentence(error: Exception) -> str:
    from rookery.errors import RookeryError

    text = " ".join(str(error).split())[:2000]
    return text if isinstance(error, RookeryError) and text else f"{type(error).__name__}: {text}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**53


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
        self._selector = new_selector()
        self._selector.register(link, selectors.EVENT_READ)

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
        if not self._selector.select(max(0.0, seconds)):
            return []
        data = self._link.recv(1 << 16)
        if not data:
            raise EOFError
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def _send(self, kind: MessageKind, payload: bytes) -> None:
        self._link.sendall(HEAD.pack(len(payload), kind) + payload)
