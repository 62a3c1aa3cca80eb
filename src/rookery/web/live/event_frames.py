"""Events of a run as frames of a stream of server-sent events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from rookery.web.run_views.run_parts import encoded

HEARTBEAT = b": still here\n\n"


def frame(kind: str, values: Any, position: Any = None) -> bytes:
    """One message of a stream.

    >>> frame("reset", {"step": 8}, 120)
    b'id: 120\\nevent: reset\\ndata: {"step":8}\\n\\n'
    """
    return _frame(kind, encoded(values), position)


def line_frames(line: bytes, position: Any) -> bytes:
    """The messages of a line of metrics; b"" if it is damaged. A run that was resumed is told by a reset before it."""
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
