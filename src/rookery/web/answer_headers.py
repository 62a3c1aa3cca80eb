"""Headers that every answer of the dashboard has, whatever it is: they tell the browser what it may not do."""

from __future__ import annotations

from starlette.types import Message, Scope, Send

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
    """The headers for what is at a path."""
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
