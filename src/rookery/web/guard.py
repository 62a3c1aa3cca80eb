"""What every request to the dashboard passes first: its size, Host, Origin and token, and the number of streams."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rookery.deploy.serving.own_hosts import OwnHosts
from rookery.web.answer_headers import with_headers
from rookery.web.refused import Refused
from rookery.web.token_login import TokenLogin

MOST_PATH_BYTES = 2048
MOST_HEADER_BYTES = 48 << 10  # with the query, in which the ids of many runs may be
MOST_HEADERS = 100
MOST_BODY_BYTES = 64 << 10
BODY_SECONDS = 10.0  # until the body of a request must have arrived
MOST_STREAMS = 256  # of events, each of which keeps a connection


class Guard:
    """Lets a request through to the application, or answers it with the reason why not. Every answer has the headers
    of `answer_headers`."""

    def __init__(self, app: ASGIApp, hosts: OwnHosts, login: TokenLogin | None = None) -> None:
        self._app, self._hosts, self._login = app, hosts, login
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        send = with_headers(scope, send)
        headers = Headers(scope=scope)
        try:
            answer = self._check(scope, headers)
            if answer is None and scope["type"] == "http":
                arrived = await _with_body(headers, receive)
                if arrived is None:
                    return
                receive = arrived
            with self._stream(scope):
                await (answer or self._app)(scope, receive, send)
        except Refused as refused:
            await refused.answer()(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers) -> Response | None:
        """None if the request may pass, or the answer of the login."""
        _check_size(scope)
        is_change = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        foreign = self._hosts.refusal(scope["headers"], is_change, "dashboard")
        if foreign is not None:
            raise Refused(403, foreign)
        return self._login.check(scope, headers) if self._login else None

    @contextmanager
    def _stream(self, scope: Scope) -> Iterator[None]:
        """Count a stream of events while it lasts. All of them have addresses that end in `/stream`."""
        if not scope["path"].rstrip("/").endswith("/stream"):
            yield
            return
        if self._streams >= MOST_STREAMS:
            raise Refused(503, f"{MOST_STREAMS} streams of events are open: close some pages", retry_after="5")
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1


def _check_size(scope: Scope) -> None:
    if len(scope.get("raw_path") or scope["path"]) > MOST_PATH_BYTES:
        raise Refused(414, f"a path may have up to {MOST_PATH_BYTES} bytes")
    headers = scope["headers"]
    size = len(scope["query_string"]) + sum(len(name) + len(value) for name, value in headers)
    if len(headers) > MOST_HEADERS or size > MOST_HEADER_BYTES:
        raise Refused(
            431, f"a request may have up to {MOST_HEADERS} headers and {MOST_HEADER_BYTES} bytes with its query"
        )


async def _with_body(headers: Headers, receive: Receive) -> Receive | None:
    """`receive` with the whole body, which has arrived by now; None if the client has gone. A body that is too large or
    too slow is refused."""
    if "content-length" not in headers and "transfer-encoding" not in headers:
        return receive
    announced = headers.get("content-length", "0")
    if not announced.isdecimal() or len(announced) > 12 or int(announced) > MOST_BODY_BYTES:
        raise _too_large()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            first = await _whole_body(receive)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {BODY_SECONDS:.0f} s") from None
    if first["type"] != "http.request":
        return None
    waiting = [first]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


async def _whole_body(receive: Receive) -> Message:
    parts, size = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return message
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BODY_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            return {"type": "http.request", "body": b"".join(parts), "more_body": False}


def _too_large() -> Refused:
    return Refused(413, f"a body may have up to {MOST_BODY_BYTES} bytes")
