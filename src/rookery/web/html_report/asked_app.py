"""Asks the application what a page would ask, without a server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, urlencode

import orjson
from starlette.types import ASGIApp, Message


class NoAnswer(LookupError):
    """The application has refused, for the reason that is the message."""


async def ask(app: ASGIApp, path: str, **query: Any) -> Any:
    """The answer of the application to a GET request, which does not leave this process."""
    body, status = bytearray(), 0

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        body.extend(message.get("body", b""))

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": unquote(path), "raw_path": path.encode(), "query_string": urlencode(query).encode(), "root_path": "",
        "headers": [(b"host", b"localhost")], "client": None, "server": None,
    }  # fmt: skip
    await app(scope, receive, send)
    answer = orjson.loads(bytes(body))
    if status != 200:
        raise NoAnswer(answer.get("error", f"{path}: {status}"))
    return answer


def listed(ids: Iterable[str]) -> str:
    """Several runs in one word of a query, as `static/js/run_id.js` writes them."""
    return ",".join(run.replace("%", "%25").replace(",", "%2C") for run in ids)
