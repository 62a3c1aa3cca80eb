"""What every request to the dashboard passes first: its size, Host, Origin and token, and the number of streams.

Where the dashboard has a token, a request shows it by a header, or by a cookie that `?token=TOKEN` gives once. Every
answer, whatever it is, has headers that tell the browser what it may not do.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rookery.deploy.serving.http_server import OwnHosts

MOST_PATH_BYTES = 2048
MOST_HEADER_BYTES = 48 << 10  # with the query, in which the ids of many runs may be
MOST_HEADERS = 100
MOST_BODY_BYTES = 64 << 10
BODY_SECONDS = 10.0  # until the body of a request must have arrived
MOST_STREAMS = 256  # of events, each of which keeps a connection


class Refused(Exception):
    """A request that is not let through; the message is for who sent it. The connection is closed, because what
    follows on it may be the rest of a body that nobody reads."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(self) -> Response:
        """The answer, as JSON."""
        return JSONResponse({"error": str(self)}, self.status, {"connection": "close", **self.headers})


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
    too slow is rejected."""
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


# What the page that asks for the token needs; everybody has these files.
PUBLIC = ("/static/css/login.css", "/static/icon.svg")
WRONG = '<p class="wrong" role="alert">This token is wrong.</p>'
# A link from another site opens this page without the cookie (SameSite=Strict): the second link is our own.
LOGIN_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>rookery: log in</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/css/login.css">
</head>
<body>
<main>
<h1><img src="/static/icon.svg" alt="">rookery</h1>
<p>This dashboard has a token: the value of <code>ROOKERY_DASHBOARD_TOKEN</code> where it was started.</p>
{wrong}<form method="get">
<label for="token">Token</label>
<input id="token" type="password" name="token" autocomplete="current-password" required autofocus>
<button>Log in</button>
</form>
<p>If you have logged in before, <a href="">open this page again</a>.</p>
</main>
</body>
</html>
"""


class TokenLogin:
    """Compares tokens in constant time. The cookie is not the token, but follows from it, so that a dashboard that is
    started again knows its browsers."""

    def __init__(self, token: str, port: int) -> None:
        self._token = token.encode()
        self._cookie = hmac.new(self._token, b"rookery dashboard", hashlib.sha256).hexdigest()
        self._name = f"rookery_dashboard_{port}"  # browsers share cookies between the ports of a host

    def check(self, scope: Scope, headers: Headers) -> Response | None:
        """None for a request that may pass, or the answer to it: after a login, and in place of a page. Everything else
        is rejected."""
        if scope["type"] == "http" and scope["path"] in PUBLIC:
            return None
        if self._is_known(headers):
            return self._without_token(scope) if _query_token(scope) is not None else None
        given = _query_token(scope)
        if given is not None and hmac.compare_digest(given.encode(), self._token):
            return self._logged_in(scope)
        if (
            scope["type"] == "http"
            and not scope["path"].startswith("/api/")
            and "text/html" in headers.get("accept", "")
        ):
            page = LOGIN_PAGE.format(wrong=WRONG if given else "")
            return HTMLResponse(page, 401, {"cache-control": "no-store"})
        raise Refused(
            401, "the token is missing or wrong: open /?token=TOKEN once, or send `Authorization: Bearer TOKEN`",
            www_authenticate="Bearer",
        )  # fmt: skip

    def _is_known(self, headers: Headers) -> bool:
        given = headers.get("authorization", "")
        scheme, _, token = given.partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token):
            return True
        cookies = (cookie_parser(line).get(self._name, "") for line in headers.getlist("cookie"))
        return any([hmac.compare_digest(cookie.encode(), self._cookie.encode()) for cookie in cookies])

    def _logged_in(self, scope: Scope) -> Response:
        answer = self._without_token(scope)
        answer.set_cookie(self._name, self._cookie, httponly=True, samesite="strict", path="/")
        return answer

    def _without_token(self, scope: Scope) -> Response:
        """The same address without the token. It begins with one slash: two would be another site."""
        path = scope.get("raw_path", scope["path"].encode()).decode("ascii", "replace").lstrip("/\\")
        rest = [(name, value) for name, value in _query(scope) if name != "token"]
        return RedirectResponse(
            f"/{path}" + (f"?{urlencode(rest)}" if rest else ""), 303, {"cache-control": "no-store"}
        )


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)


def _query_token(scope: Scope) -> str | None:
    """The token of an address that was opened in a browser."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return None
    return next((value for name, value in _query(scope) if name == "token"), None)


# No script, style or picture from elsewhere, and none inside of a page; no page of others around ours.
PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
# What the API answers may be a file of a run, which anybody may have made. Opened by itself it runs nothing, not even
# a script that lies beside it.
DATA_POLICY = (
    "default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox"
)
ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
STARTS = ("http.response.start", "websocket.http.response.start", "websocket.accept")


def answer_headers(path: str) -> list[tuple[bytes, bytes]]:
    policy = DATA_POLICY if path.startswith("/api/") else PAGE_POLICY
    return [(b"content-security-policy", policy.encode()), *ALWAYS]


def with_headers(scope: Scope, send: Send) -> Send:
    """`send` with these headers. A route cannot weaken them; it may say how long its answer is kept."""
    own = answer_headers(scope["path"])
    names = {name for name, _ in own}

    async def guarded(message: Message) -> None:
        if message["type"] in STARTS:
            given = [(name.lower(), value) for name, value in message.get("headers", [])]
            kept = [(name, value) for name, value in given if name not in names]
            if scope["path"].startswith("/api/") and not any(name == b"cache-control" for name, _ in kept):
                kept.append((b"cache-control", b"no-store"))
            message = {**message, "headers": kept + own}
        await send(message)

    return guarded
