"""A stream of server-sent events as an answer, and the events of a run as its frames."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rookery.web.dashboard_state import encoded

HEARTBEAT = b": still here\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(Response):
    """Sends frames as they come, until the reader goes away. `send` waits for a slow reader, and the next frames are
    made after it: nothing is kept for it in the meantime. The connection ends one that does not read at all, and it
    comes back with its last id."""

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if sending.done() and not sending.cancelled() and (error := sending.exception()):
            raise error

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._frames) as frames:
            async for data in frames:
                await send({"type": "http.response.body", "body": data, "more_body": True})


async def is_set(event: asyncio.Event, seconds: float) -> bool:
    """Whether an event comes within so many seconds."""
    with suppress(TimeoutError):
        return await asyncio.wait_for(event.wait(), seconds)
    return False


def cancel_soon(tasks: Iterable[asyncio.Task[None]]) -> None:
    """End tasks from another thread than that of their event loop, which may have ended."""
    for task in tasks:
        with suppress(RuntimeError):
            task.get_loop().call_soon_threadsafe(task.cancel)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def frame(kind: str, values: Any, position: Any = None) -> bytes:
    """One message of a stream.

    >>> frame("reset", {"step": 8}, 120)
    b'id: 120\\nevent: reset\\ndata: {"step":8}\\n\\n'
    """
    return _frame(kind, encoded(values), position)


def line_frames(line: bytes, position: Any) -> bytes:
    """The messages of a line of metrics; b"" if it is damaged. A reset before it reports that the run was resumed."""
    event, text = _parse(line)
    if event is None:
        return b""
    before = after = b""
    if event["kind"] == "start" and _is_number(event.get("resumed_from")):
        before = frame("reset", {"step": event["resumed_from"]})
    elif event["kind"] == "end":
        after = frame("end", {"step": event["step"], "reason": event.get("reason")})
    return before + _frame("event", text, position) + after


def parse_event(line: bytes) -> dict[str, Any] | None:
    """The event of a line; None if it is none."""
    return _parse(line)[0]


def _parse(line: bytes) -> tuple[dict[str, Any] | None, bytes]:
    """The event, and its text in one line of strict JSON."""
    try:
        event, text = orjson.loads(line), line.strip().replace(b"\r", b" ")
    except orjson.JSONDecodeError:
        event = _parse_loosely(line)
        text = orjson.dumps(event)
    return (event, text) if _is_event(event) else (None, b"")


def _parse_loosely(line: bytes) -> Any:
    """Other programs write NaN and Infinity, which no browser reads: they become null."""
    if b"NaN" not in line and b"Infinity" not in line:
        return None
    try:
        return json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _is_event(event: Any) -> bool:
    return isinstance(event, Mapping) and isinstance(event.get("kind"), str) and _is_number(event.get("step"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _frame(kind: str, data: bytes, position: Any) -> bytes:
    head = f"event: {kind}\ndata: " if position is None else f"id: {position}\nevent: {kind}\ndata: "
    return head.encode() + data + b"\n\n"
